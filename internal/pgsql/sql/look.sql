-- $1 key
--
-- A standby may lag behind: it says that it is one, and is not believed.
SELECT ANSWER_COLUMNS, NOW_MICROS, pg_is_in_recovery()
FROM (SELECT) AS one LEFT JOIN TABLE_NAME r ON r.key = $1
