-- One row per key. Times are microseconds since 1970 UTC, by this server's
-- clock. The record is every column but due, waited, sum and result; sum covers
-- it all, with a checksum of result, and stands for it in a compare-and-set. Due and waited
-- decide nothing.
--
-- Completing changes no column that an index has, so that it touches none where
-- the page of the claim has room for the result.
CREATE TABLE IF NOT EXISTS TABLE_NAME (
	key         bytea    NOT NULL PRIMARY KEY,
	fence       int8     NOT NULL,
	lease_end   int8     NOT NULL, -- of a held claim, else 0
	window_end  int8     NOT NULL, -- of a completed record: its result is replayed until then
	gone        int8     NOT NULL, -- nothing is kept from then on
	due         int8     NOT NULL, -- when to sweep; never later than gone
	attempt     int4     NOT NULL,
	vanished    int4     NOT NULL,
	generation  int4     NOT NULL,
	result_sum  int4,              -- beginning of the SHA-256 of result, of a completed record
	version     int2     NOT NULL, -- of this layout; a program changes no row of another
	state       int2     NOT NULL, -- released, held, completed
	waited      bool     NOT NULL DEFAULT false, -- someone listens for the end of this claim
	token       bytea    NOT NULL,
	sum         bytea    NOT NULL, -- checksum of the record
	fingerprint bytea    NOT NULL, -- empty for none
	scope       bytea    NOT NULL,
	label       bytea,
	steps       bytea,
	result      bytea
) WITH (vacuum_truncate = off);

CREATE INDEX IF NOT EXISTS INDEX_NAME ON TABLE_NAME (due);

CREATE TABLE IF NOT EXISTS SCHEMA_NAME (version int4 NOT NULL);

-- Twenty pages from the start, which vacuum_truncate = off keeps: of a smaller table the planner
-- would read all rows rather than use the index, and connections would go on
-- with that plan while the table grows.
INSERT INTO TABLE_NAME (key, fence, lease_end, window_end, gone, due, attempt, vanished, generation,
	version, state, token, sum, fingerprint, scope, label)
SELECT sha256(int4send(i)), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, substr(sha256(''), 1, 16), '', '', '', decode(repeat('00', 1500), 'hex')
FROM generate_series(1, 100) AS i
WHERE NOT EXISTS (SELECT 1 FROM SCHEMA_NAME)
ON CONFLICT DO NOTHING;

DELETE FROM TABLE_NAME WHERE version = 0;
