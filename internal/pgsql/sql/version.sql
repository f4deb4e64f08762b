-- The version of these files that made the table. A program that finds a
-- version it does not know touches nothing.
INSERT INTO SCHEMA_NAME (version)
SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM SCHEMA_NAME);
