-- $1 key, $2 token
--
-- The fingerprint stays where an attempt vanished or a step finished: then only
-- the same request may go on.
WITH clock AS MATERIALIZED (
	SELECT NOW_MICROS AS now
), changed AS (
	UPDATE TABLE_NAME r
	SET (state, lease_end, fingerprint, sum) = (
		SELECT n.state, n.lease_end, n.fingerprint, SUM_OF(n)
		FROM (SELECT r.key, r.version, 0::int2 AS state, r.token, r.fence, r.attempt, r.vanished, r.generation,
			CASE WHEN r.vanished = 0 AND coalesce(r.steps, '') = '' THEN '' ELSE r.fingerprint END AS fingerprint,
			r.scope, r.label, r.steps, 0::int8 AS lease_end, r.window_end, r.gone, r.result_sum) n
	)
	FROM clock
	WHERE HELD_BY_TOKEN
	RETURNING r.waited
)
SELECT 'changed', WAKE_IF(waited) FROM changed
UNION ALL
SELECT WHY_NOT, NULL FROM TABLE_NAME r, clock WHERE key = $1 AND NOT EXISTS (SELECT FROM changed)
