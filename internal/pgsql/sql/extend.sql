-- $1 key, $2 token, $3 lease, 0 to give up
--
-- The record outlives the new end of its lease by as much as the old one.
WITH clock AS MATERIALIZED (
	SELECT NOW_MICROS AS now
), changed AS (
	UPDATE TABLE_NAME r
	SET (lease_end, window_end, gone, due, sum) = (
		SELECT n.lease_end, n.window_end, n.gone, least(r.due, n.gone), SUM_OF(n)
		FROM (SELECT r.key, r.version, r.state, r.token, r.fence, r.attempt, r.vanished, r.generation,
			r.fingerprint, r.scope, r.label, r.steps, clock.now + $3::int8 AS lease_end,
			clock.now + $3 + r.gone - r.lease_end AS window_end, clock.now + $3 + r.gone - r.lease_end AS gone, r.result_sum) n
	)
	FROM clock
	WHERE HELD_BY_TOKEN
	RETURNING r.waited
)
SELECT 'changed', WAKE_IF(waited AND $3 = 0) FROM changed
UNION ALL
SELECT WHY_NOT, NULL FROM TABLE_NAME r, clock WHERE key = $1 AND NOT EXISTS (SELECT FROM changed)
