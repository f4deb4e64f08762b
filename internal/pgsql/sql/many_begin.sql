-- The arguments of BEGIN_NAME for many keys, no two of them the same: an array
-- of each. Replays are read together, the rows that are new go in together, the
-- others one by one. The answers come in no order, each with the place of its key.
WITH asked AS MATERIALIZED (
	SELECT *, NOW_MICROS AS now
	FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::int8[], $7::int8[], $8::int4[], $9::int4[])
		WITH ORDINALITY AS a(a_key, a_token, a_fingerprint, a_scope, a_label, a_lease, a_window, max_takeovers, max_attempts, place)
), replayed AS MATERIALIZED (
	SELECT a.place, a.now, r.* FROM asked a JOIN TABLE_NAME r ON r.key = a.a_key
	WHERE r.state = 2 AND r.version = 1 AND r.gone > a.now AND NOT pg_is_in_recovery()
), inserted AS (
	INSERT INTO TABLE_NAME (CHECKED_COLUMNS, due, sum)
	SELECT CHECKED_COLUMNS, now + a_window, SUM_OF(n)
	FROM (SELECT NEW_RECORD, now, a_window FROM asked a WHERE NOT EXISTS (SELECT FROM replayed p WHERE p.place = a.place)) n
	ON CONFLICT (key) DO NOTHING
	RETURNING *
), settled AS MATERIALIZED ( -- what did not wait for too long: see BEGIN_NAME
	SELECT place, now, inserted.* FROM inserted JOIN asked ON key = a_key
	WHERE NOW_MICROS - now <= greatest(a_lease / 2, 20000)
	UNION ALL
	SELECT * FROM replayed
)
SELECT ANSWER_COLUMNS, r.now, r.place FROM settled r
UNION ALL
SELECT ANSWER_COLUMNS, r.due, a.place
FROM asked a CROSS JOIN LATERAL BEGIN_NAME(a_key, a_token, a_fingerprint, a_scope, a_label, a_lease, a_window, max_takeovers, max_attempts) r
WHERE NOT EXISTS (SELECT FROM settled s WHERE s.place = a.place)
