-- $1 key
--
-- A standby may lag behind: it says that it is one, and is not believed.
SELECT ANSWER_COLUMNS, r.result, r.version = 1 AND r.sum = SUM_OF(r), NOW_MICROS, r.key IS NOT NULL, pg_is_in_recovery()
FROM (SELECT) AS one LEFT JOIN TABLE_NAME r ON r.key = $1
