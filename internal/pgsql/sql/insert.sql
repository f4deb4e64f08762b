-- $1 key, $2 token, $3 fence, $4 fingerprint, $5 scope, $6 label, $7 retain,
-- $8 remember, $9 result, $10 its checksum
--
-- A record that is complete from the first, for a transaction that found none
-- under the lock of its key. It fails where there is one after all.
INSERT INTO TABLE_NAME (CHECKED_COLUMNS, due, result, sum)
SELECT CHECKED_COLUMNS, gone, $9::bytea, SUM_OF(n)
FROM (
	SELECT $1::bytea AS key, 1::int2 AS version, 2::int2 AS state, $2::bytea AS token, $3::int8 AS fence, 1 AS attempt, 0 AS vanished,
		0 AS generation, $4::bytea AS fingerprint, $5::bytea AS scope, $6::bytea AS label, NULL::bytea AS steps,
		0::int8 AS lease_end, now + $7::int8 AS window_end, now + $7::int8 + $8::int8 AS gone, $10::int4 AS result_sum
	FROM (SELECT NOW_MICROS AS now) c
) n
