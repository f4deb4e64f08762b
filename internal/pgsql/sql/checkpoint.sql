-- $1 key, $2 token, $3 steps
WITH clock AS MATERIALIZED (
	SELECT NOW_MICROS AS now
), changed AS (
	UPDATE TABLE_NAME r
	SET (steps, sum) = (
		SELECT n.steps, SUM_OF(n)
		FROM (SELECT r.key, r.version, r.state, r.token, r.fence, r.attempt, r.vanished, r.generation,
			r.fingerprint, r.scope, r.label, $3::bytea AS steps, r.lease_end, r.window_end, r.gone, r.result_sum) n
	)
	FROM clock
	WHERE HELD_BY_TOKEN
	RETURNING 1
)
SELECT 'changed', NULL FROM changed
UNION ALL
SELECT WHY_NOT, NULL FROM TABLE_NAME r, clock WHERE key = $1 AND NOT EXISTS (SELECT FROM changed)
