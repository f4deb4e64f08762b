-- One row per key. The record is the truth, and carries a checksum bound to
-- its key; the other columns are copies of what sweeping and listing need,
-- and decide nothing on their own.
--
-- WITHOUT ROWID: one tree holds key and record, so that a claim changes one
-- page of it where a table with row ids changes two.
CREATE TABLE IF NOT EXISTS ibid_record (
	key    BLOB    NOT NULL PRIMARY KEY CHECK (length(key) = 32),
	gone   INTEGER NOT NULL, -- nanoseconds since 1970 UTC; nothing is kept from then on
	scope  BLOB    NOT NULL, -- digest of the claim's scope
	record BLOB    NOT NULL  -- encoded, see internal/record
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS ibid_record_gone ON ibid_record (gone);

-- The version of this file that made the table. A program that finds a version it
-- does not know touches nothing.
CREATE TABLE IF NOT EXISTS ibid_record_schema (version INTEGER NOT NULL);

INSERT INTO ibid_record_schema (version)
SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM ibid_record_schema);
