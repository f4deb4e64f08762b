-- One row per key. The record is the truth, and carries a checksum bound to
-- its key; the other columns are copies of what sweeping and listing need, and
-- decide nothing on their own. A row is replaced only in the turn in which it was read.
CREATE TABLE IF NOT EXISTS `ibid_record` (
	`key`    BINARY(32) NOT NULL PRIMARY KEY,
	`turn`   BIGINT     NOT NULL, -- grows with every write of the key
	`gone`   BIGINT     NOT NULL, -- nanoseconds since 1970 UTC; nothing is kept from then on
	`scope`  BINARY(32) NOT NULL, -- digest of the claim's scope
	`record` LONGBLOB   NOT NULL, -- encoded, see internal/record
	KEY `gone` (`gone`)
) ENGINE = InnoDB;

-- The version of this file that made the table. A program that finds a version
-- it does not know touches nothing.
CREATE TABLE IF NOT EXISTS `ibid_record_schema` (`version` INT NOT NULL PRIMARY KEY) ENGINE = InnoDB;

INSERT IGNORE INTO `ibid_record_schema` (`version`) VALUES (1);
