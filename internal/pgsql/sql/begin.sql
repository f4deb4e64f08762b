-- Begin decides: it inserts, or takes over what it read, or returns what stands
-- there. What stands is read before anything is written: where nothing is
-- granted, no row is inserted, changed or locked, and no WAL is written.
--
-- A row is written only over the one that was read (sum); when another caller was
-- faster, it is read again. In the answer, due is when it was judged.
--
-- A function, because a first run, a takeover and a replay have little in
-- common: one statement of plain SQL prepares for all of them at every call,
-- at twice the cost of the call.
CREATE OR REPLACE FUNCTION BEGIN_NAME(
	a_key bytea, a_token bytea, a_fingerprint bytea, a_scope bytea, a_label bytea,
	a_lease int8, a_window int8, max_takeovers int4, max_attempts int4
) RETURNS TABLE_NAME LANGUAGE plpgsql AS $$
DECLARE
	r TABLE_NAME;
	now int8;
	was bytea;
BEGIN
	IF pg_is_in_recovery() THEN
		RAISE EXCEPTION 'ibid: the server is a standby' USING ERRCODE = 'read_only_sql_transaction';
	END IF;
	FOR try IN 1..20 LOOP
		SELECT * INTO r FROM TABLE_NAME t WHERE t.key = a_key;
		now := NOW_MICROS;
		IF NOT FOUND THEN
			r.key := a_key;
			r.version := 1;
			r.fence := now;
			r.attempt := 1;
			r.vanished := 0;
			r.generation := 0;
			r.due := now + a_window;
		ELSE
			IF r.version <> 1 THEN
				RETURN r;
			END IF;
			IF r.gone > now THEN
				IF r.state = 2 OR r.state = 1 AND r.token <> a_token AND r.lease_end > now THEN
					r.due := now;
					RETURN r;
				END IF;
				IF r.state = 0 OR r.token <> a_token THEN
					IF r.fingerprint <> a_fingerprint AND (r.state = 1 OR r.fingerprint <> '')
						OR max_takeovers >= 0 AND r.vanished + r.state > max_takeovers
						OR max_attempts > 0 AND r.attempt >= max_attempts
					THEN
						r.due := now;
						RETURN r;
					END IF;
				END IF;
			END IF;
			IF r.sum <> SUM_OF(r) THEN
				RETURN r;
			END IF;
			was := r.sum;
			r.due := least(r.due, now + a_window);
			IF r.gone <= now THEN
				r.attempt := 1;
				r.vanished := 0;
				r.generation := 0;
				r.steps := NULL;
			ELSIF r.state = 0 OR r.token <> a_token THEN
				r.attempt := r.attempt + 1;
				r.vanished := r.vanished + r.state; -- state 1 is lapsed here
			END IF;
			IF r.gone > now AND r.state = 1 AND r.token = a_token THEN -- its first reply was lost
				a_fingerprint := r.fingerprint;
				a_scope := r.scope;
				a_label := r.label;
			ELSE
				r.fence := greatest(r.fence + 1, now);
			END IF;
			r.result := NULL;
			r.result_sum := NULL;
		END IF;
		r.state := 1;
		r.waited := false;
		r.token := a_token;
		r.fingerprint := a_fingerprint;
		r.scope := a_scope;
		r.label := a_label;
		r.lease_end := now + a_lease;
		r.window_end := r.lease_end + a_window;
		r.gone := r.window_end;
		r.sum := SUM_OF(r);
		IF was IS NULL THEN
			INSERT INTO TABLE_NAME VALUES (r.*) ON CONFLICT (key) DO NOTHING;
		ELSE
			UPDATE TABLE_NAME t SET ALL_COLUMNS WHERE t.key = a_key AND t.sum = was;
		END IF;
		-- A lock that it waited for took from its lease: then it begins anew. The
		-- token stands, so it counts no attempt.
		IF FOUND AND NOW_MICROS - now <= greatest(a_lease / 2, 20000) THEN
			r.due := now;
			RETURN r;
		END IF;
		r := NULL;
		was := NULL;
	END LOOP;
	RAISE EXCEPTION 'ibid: the record changes faster than it can be read' USING ERRCODE = 'serialization_failure';
END $$;
