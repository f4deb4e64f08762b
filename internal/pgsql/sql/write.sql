-- Write is every other verb that changes a record, and each stands or falls
-- with the token. It returns 'done', 'lost' or 'damaged', or 'same' where the
-- result had been recorded under the token before.
--
-- The end of a claim is announced only if somebody flagged it: announcements
-- are made one commit after another across the whole database.
CREATE OR REPLACE FUNCTION WRITE_NAME(
	verb text, a_key bytea, a_token bytea, bytes bytea, bytes_sum int4, a_time int8, b_time int8
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r TABLE_NAME;
	now int8;
	was bytea;
	flagged bool;
	tries int4 := 0;
BEGIN
	IF pg_is_in_recovery() THEN
		RAISE EXCEPTION 'ibid: the server is a standby' USING ERRCODE = 'read_only_sql_transaction';
	END IF;
	LOOP
		SELECT * INTO r FROM TABLE_NAME t WHERE t.key = a_key;
		now := NOW_MICROS;
		IF NOT FOUND THEN
			RETURN 'lost';
		END IF;
		was := r.sum;
		IF r.version <> 1 OR was <> SUM_OF(r) OR verb = 'forget' AND r.state = 2
			AND r.result_sum IS DISTINCT FROM ('x' || encode(substr(sha256(r.result), 1, 4), 'hex'))::bit(32)::int4
		THEN
			IF verb <> 'forget' OR a_token <> decode(repeat('00', 16), 'hex') THEN
				RETURN 'damaged';
			END IF;
			r.version := 1;
			r.token := a_token;
			r.fence := 0;
			r.generation := now / 1000000; -- which no count of forgets reaches
			r.scope := decode(repeat('00', 32), 'hex');
			r.gone := now + 1;
		END IF;
		IF r.gone <= now OR r.token <> a_token OR r.state <> 1 AND verb <> 'forget' THEN
			IF verb = 'complete' AND r.state = 2 AND r.token = a_token AND r.gone > now AND r.window_end > now AND r.result = bytes THEN
				-- Its first reply was lost. A lock is enough of a change for this commit to
				-- wait for the standbys, as the first one may not have done.
				PERFORM 1 FROM TABLE_NAME t WHERE t.key = a_key FOR UPDATE;
				RETURN 'same';
			END IF;
			RETURN 'lost';
		END IF;
		IF verb = 'complete' THEN
			UPDATE TABLE_NAME t SET state = 2, lease_end = 0, window_end = now + a_time, gone = now + a_time + b_time,
				due = least(r.due, now + a_time + b_time), result = bytes, result_sum = bytes_sum, sum = SUM_OF_ROW(COMPLETED_RECORD)
			WHERE t.key = a_key AND t.sum = was
			RETURNING waited INTO flagged;
		ELSE
			CASE verb
			WHEN 'extend' THEN -- the record outlives the new end of its lease by as much as the old one
				r.gone := now + a_time + r.gone - r.lease_end;
				r.window_end := r.gone;
				r.lease_end := now + a_time;
			WHEN 'release' THEN
				r.state := 0;
				r.lease_end := 0;
				IF r.vanished = 0 AND coalesce(r.steps, '') = '' THEN
					r.fingerprint := '';
				END IF;
			WHEN 'checkpoint' THEN
				r.steps := bytes;
			WHEN 'forget' THEN -- what is left is a released record of the next generation
				r.state := 0;
				r.token := decode(repeat('00', 16), 'hex');
				r.attempt := 0;
				r.vanished := 0;
				r.generation := r.generation + 1;
				r.fingerprint := '';
				r.label := NULL;
				r.steps := NULL;
				r.result := NULL;
				r.result_sum := NULL;
				r.lease_end := 0;
				r.window_end := now + a_time;
				r.gone := r.window_end;
			END CASE;
			UPDATE TABLE_NAME t SET (CHECKED_COLUMNS, due, result, sum) = (
				SELECT CHECKED_COLUMNS, least(r.due, r.gone), r.result, SUM_OF(n) FROM (SELECT CHECKED_OF_R) n
			) WHERE t.key = a_key AND t.sum = was
			RETURNING waited INTO flagged;
		END IF;
		IF FOUND THEN
			IF flagged AND (verb IN ('complete', 'release', 'forget') OR verb = 'extend' AND a_time = 0) THEN
				PERFORM pg_notify('CHANNEL', encode(a_key, 'hex'));
			END IF;
			RETURN 'done';
		END IF;
		tries := tries + 1;
		IF tries = 20 THEN
			RAISE EXCEPTION 'ibid: the record changes faster than it can be read' USING ERRCODE = 'serialization_failure';
		END IF;
	END LOOP;
END $$;
