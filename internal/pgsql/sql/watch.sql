-- $1 key
--
-- Flags the claim that stands, so that its end is announced. Announcements are
-- made one commit after another across the whole database: nobody makes one that
-- nobody waits for.
UPDATE TABLE_NAME SET waited = true WHERE key = $1 AND state = 1 AND NOT waited AND version = 1
