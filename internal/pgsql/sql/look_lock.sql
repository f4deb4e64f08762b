-- $1 key, $2 number of its lock
--
-- Takes the lock of the key for this transaction, or says false, and reads. What
-- is read may be older than the lock: a record that was committed in between meets
-- the unique key later.
SELECT ANSWER_COLUMNS, NOW_MICROS, pg_is_in_recovery(), pg_try_advisory_xact_lock($2)
FROM (SELECT) AS one LEFT JOIN TABLE_NAME r ON r.key = $1
