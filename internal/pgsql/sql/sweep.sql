-- $1 limit
--
-- Judges each row again under its lock. Rows that others hold are left to the
-- next sweep. A row that is kept longer than it was due for is put off, and so, by an
-- hour, is one that cannot be understood.
WITH clock AS MATERIALIZED (
	SELECT NOW_MICROS AS now
), picked AS MATERIALIZED (
	SELECT r.key FROM TABLE_NAME r, clock
	WHERE r.due <= clock.now
	ORDER BY r.due LIMIT $1::int8
	FOR UPDATE OF r SKIP LOCKED
), deleted AS (
	DELETE FROM TABLE_NAME r USING picked, clock
	WHERE r.key = picked.key AND r.gone <= clock.now AND r.version = 1 AND r.sum = SUM_OF(r)
	RETURNING r.key
), put_off AS (
	UPDATE TABLE_NAME r SET due = CASE WHEN r.gone > clock.now THEN r.gone ELSE clock.now + 3600000000 END
	FROM picked, clock
	WHERE r.key = picked.key AND NOT (r.gone <= clock.now AND r.version = 1 AND r.sum = SUM_OF(r))
	RETURNING r.key
)
SELECT (SELECT count(*) FROM picked), (SELECT count(*) FROM deleted), (SELECT count(*) FROM put_off)
