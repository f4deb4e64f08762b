-- The arguments of WRITE_NAME for many keys, no two of them the same: an array
-- of each. Claims that stand are completed together, the rest goes one by one. The
-- answers come in no order, each with the place of its key.
WITH asked AS MATERIALIZED (
	SELECT *, NOW_MICROS AS now
	FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::bytea[], $5::int4[], $6::int8[], $7::int8[])
		WITH ORDINALITY AS a(verb, a_key, a_token, bytes, bytes_sum, a_time, b_time, place)
), completed AS (
	UPDATE TABLE_NAME r
	SET state = 2, lease_end = 0, window_end = now + a_time, gone = now + a_time + b_time,
		due = least(due, now + a_time + b_time), result = bytes, result_sum = bytes_sum,
		sum = SUM_OF_ROW(COMPLETED_RECORD)
	FROM asked
	WHERE r.key = a_key AND verb = 'complete' AND r.token = a_token AND r.state = 1 AND r.gone > now
		AND r.version = 1 AND r.sum = SUM_OF(r) AND NOT r.waited
	RETURNING place
)
SELECT 'done', place FROM completed
UNION ALL
SELECT WRITE_NAME(verb, a_key, a_token, bytes, bytes_sum, a_time, b_time), a.place
FROM asked a
WHERE NOT EXISTS (SELECT FROM completed c WHERE c.place = a.place)
