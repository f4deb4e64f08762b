-- A record that is complete from the first, for a transaction that found none
-- under the lock of its key. It fails where there is one after all.
INSERT INTO TABLE_NAME (CHECKED_COLUMNS, due, result, sum)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, NULL, 0, $12, $13, $14, $13, $15, $16)
