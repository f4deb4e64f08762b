-- $1 after key, $2 scope, empty for all, $3 limit
SELECT r.key, r.version, r.state, r.token, r.fence, r.attempt, r.vanished, r.generation, r.fingerprint, r.scope, r.label, r.steps,
	r.lease_end, r.window_end, r.gone, r.result_sum, r.sum, NULL::bytea, NOW_MICROS, pg_is_in_recovery()
FROM TABLE_NAME r
WHERE r.key > $1 AND ($2::bytea = '' OR r.scope = $2) AND r.gone > NOW_MICROS
ORDER BY r.key LIMIT $3::int8
