-- $1 key, $2 token, $3 window
--
-- What is left is a released record of the next generation.
WITH clock AS MATERIALIZED (
	SELECT NOW_MICROS AS now
), changed AS (
	UPDATE TABLE_NAME r
	SET (state, token, attempt, vanished, generation, fingerprint, label, steps, lease_end, window_end, gone, due, result, result_sum, sum) = (
		SELECT n.state, n.token, n.attempt, n.vanished, n.generation, n.fingerprint, n.label, n.steps, n.lease_end, n.window_end, n.gone,
			least(r.due, n.gone), NULL::bytea, n.result_sum, SUM_OF(n)
		FROM (SELECT r.key, r.version, 0::int2 AS state, decode(repeat('00', 16), 'hex') AS token, r.fence,
			0 AS attempt, 0 AS vanished, r.generation + 1 AS generation, ''::bytea AS fingerprint, r.scope,
			NULL::bytea AS label, NULL::bytea AS steps, 0::int8 AS lease_end, clock.now + $3::int8 AS window_end,
			clock.now + $3 AS gone, NULL::int4 AS result_sum) n
	)
	FROM clock
	WHERE r.key = $1 AND r.token = $2 AND r.gone > clock.now AND SOUND
	RETURNING r.waited
)
SELECT 'changed', WAKE_IF(waited) FROM changed
UNION ALL
SELECT CASE WHEN NOT (SOUND) THEN 'damaged' WHEN token = $2 AND gone > now THEN 'raced' ELSE 'lost' END, NULL
FROM TABLE_NAME r, clock WHERE key = $1 AND NOT EXISTS (SELECT FROM changed)
