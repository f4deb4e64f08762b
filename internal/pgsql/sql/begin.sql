-- $1 key, $2 token, $3 fingerprint, $4 scope, $5 label, $6 lease, $7 window,
-- $8 max takeovers, $9 max attempts
--
-- One statement decides: it inserts, or takes over what it saw, or reads what
-- stands there. What stands is read before anything is written: where nothing
-- is granted, no row is inserted, changed or locked, and no WAL is written.
--
-- It sees what was committed when it began, and writes only over that (sum).
-- When another caller was faster it returns no row, and is asked again.
WITH clock AS MATERIALIZED (
	SELECT NOW_MICROS AS now
), seen AS MATERIALIZED (
	SELECT r.*, r.version = 1 AND r.sum = SUM_OF(r) AS sound
	FROM TABLE_NAME r WHERE r.key = $1
), judged AS MATERIALIZED (
	SELECT seen.*, CASE
		WHEN NOT sound THEN 'stands'
		WHEN gone <= now THEN 'absent'
		WHEN state = 2 THEN 'stands'
		WHEN state = 1 AND token = $2 THEN 'mine'
		WHEN state = 1 AND lease_end > now THEN 'stands'
		WHEN fingerprint <> $3::bytea AND (state = 1 OR fingerprint <> '') THEN 'stands'
		WHEN $8::int4 >= 0 AND vanished + state > $8 THEN 'stands'
		WHEN $9::int4 > 0 AND attempt >= $9 THEN 'stands'
		ELSE 'next'
	END AS verdict
	FROM seen, clock
), claim AS MATERIALIZED (
	SELECT
		$1::bytea AS key, 1::int2 AS version, 1::int2 AS state, $2::bytea AS token,
		CASE verdict WHEN 'mine' THEN fence ELSE greatest(fence + 1, now) END AS fence,
		CASE verdict WHEN 'mine' THEN attempt WHEN 'next' THEN attempt + 1 ELSE 1 END AS attempt,
		CASE verdict WHEN 'mine' THEN vanished WHEN 'next' THEN vanished + state ELSE 0 END AS vanished,
		CASE WHEN verdict IN ('mine', 'next') THEN generation ELSE 0 END AS generation,
		CASE verdict WHEN 'mine' THEN fingerprint ELSE $3 END AS fingerprint,
		CASE verdict WHEN 'mine' THEN scope ELSE $4::bytea END AS scope,
		CASE verdict WHEN 'mine' THEN label ELSE $5::bytea END AS label,
		CASE WHEN verdict IN ('mine', 'next') THEN steps END AS steps,
		now + $6::int8 AS lease_end, now + $6 + $7::int8 AS window_end, now + $6 + $7 AS gone,
		now + $7 AS due, NULL::int4 AS result_sum, sum AS was
	FROM clock LEFT JOIN judged ON true
	WHERE verdict IS DISTINCT FROM 'stands'
), inserted AS (
	INSERT INTO TABLE_NAME AS r (RECORD_COLUMNS, due, sum)
	SELECT RECORD_COLUMNS, due, SUM_OF(claim) FROM claim WHERE was IS NULL
	ON CONFLICT (key) DO NOTHING
	RETURNING r.*
), updated AS (
	UPDATE TABLE_NAME r
	SET state = n.state, token = n.token, fence = n.fence, attempt = n.attempt, vanished = n.vanished,
		generation = n.generation, fingerprint = n.fingerprint, scope = n.scope, label = n.label, steps = n.steps,
		lease_end = n.lease_end, window_end = n.window_end, gone = n.gone, due = least(r.due, n.due),
		result = NULL, result_sum = NULL, waited = false, sum = SUM_OF(n)
	FROM claim n
	WHERE r.key = $1 AND r.sum = n.was
	RETURNING r.*
)
SELECT ANSWER_COLUMNS, NULL::bytea AS result, true AS sound, now, NOW_MICROS FROM inserted r, clock
UNION ALL
SELECT ANSWER_COLUMNS, NULL::bytea, true, now, NOW_MICROS FROM updated r, clock
UNION ALL
SELECT ANSWER_COLUMNS, result, sound, now, now FROM judged r, clock WHERE verdict = 'stands'
