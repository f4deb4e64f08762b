-- $1 key, $2 token, $3 result, $4 its checksum, $5 retain, $6 remember
--
-- Completes the claim that stands under the token, also after its lease. Where
-- it changed nothing it says what stood there when it began.
WITH clock AS MATERIALIZED (
	SELECT NOW_MICROS AS now
), changed AS (
	UPDATE TABLE_NAME r
	SET (state, lease_end, window_end, gone, due, result, result_sum, sum) = (
		SELECT n.state, n.lease_end, n.window_end, n.gone, least(r.due, n.gone), $3::bytea, n.result_sum, SUM_OF(n)
		FROM (SELECT r.key, r.version, 2::int2 AS state, r.token, r.fence, r.attempt, r.vanished, r.generation,
			r.fingerprint, r.scope, r.label, r.steps, 0::int8 AS lease_end, clock.now + $5::int8 AS window_end,
			clock.now + $5 + $6::int8 AS gone, $4::int4 AS result_sum) n
	)
	FROM clock
	WHERE HELD_BY_TOKEN
	RETURNING r.waited
)
SELECT 'changed', WAKE_IF(waited) FROM changed
UNION ALL
SELECT CASE
	WHEN state = 2 AND token = $2 AND window_end > now AND gone > now AND SOUND AND result = $3 THEN 'same'
	ELSE WHY_NOT
END, NULL
FROM TABLE_NAME r, clock WHERE key = $1 AND NOT EXISTS (SELECT FROM changed)
