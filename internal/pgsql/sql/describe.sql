-- The settings as they are in force for this session, and for this table.
SELECT current_setting('server_version'), current_setting('fsync'), current_setting('full_page_writes'),
	current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), pg_is_in_recovery(),
	coalesce((SELECT relpersistence::text FROM pg_class WHERE oid = to_regclass('TABLE_NAME')), '')
