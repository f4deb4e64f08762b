-- $1 after key, $2 scope, empty for all, $3 limit
SELECT RECORD_OF(r), r.sum, NULL::bytea, NOW_MICROS, pg_is_in_recovery()
FROM TABLE_NAME r
WHERE r.key > $1 AND ($2::bytea = '' OR r.scope = $2) AND r.gone > NOW_MICROS
ORDER BY r.key LIMIT $3::int8
