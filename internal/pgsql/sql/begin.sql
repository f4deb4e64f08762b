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
	kept bool;
	mine bool;
	tries int4 := 0;
BEGIN
	LOOP
		-- On a standby it finds nothing, and fails to insert.
		SELECT * INTO r FROM TABLE_NAME t WHERE t.key = a_key AND NOT pg_is_in_recovery();
		now := NOW_MICROS;
		IF NOT FOUND THEN
			INSERT INTO TABLE_NAME AS t (CHECKED_COLUMNS, due, sum)
			SELECT CHECKED_COLUMNS, now + a_window, SUM_OF(n)
			FROM (SELECT NEW_RECORD) n
			ON CONFLICT (key) DO NOTHING
			RETURNING * INTO r;
		ELSE
			IF r.version <> 1 OR r.gone > now AND (r.state = 2 OR r.state = 1 AND r.lease_end > now AND r.token <> a_token) THEN
				r.due := now;
				RETURN r;
			END IF;
			kept := r.gone > now;
			mine := kept AND r.state = 1 AND r.token = a_token; -- its first reply was lost
			IF kept AND NOT mine AND (r.fingerprint <> a_fingerprint AND (r.state = 1 OR r.fingerprint <> '')
				OR max_takeovers >= 0 AND r.vanished + r.state > max_takeovers
				OR max_attempts > 0 AND r.attempt >= max_attempts)
			OR r.sum <> SUM_OF(r) THEN
				r.due := now;
				RETURN r;
			END IF;
			was := r.sum;
			UPDATE TABLE_NAME t SET (CHECKED_COLUMNS, due, result, sum) = (
				SELECT CHECKED_COLUMNS, least(r.due, now + a_window), NULL::bytea, SUM_OF(n)
				FROM (SELECT a_key AS key, 1::int2 AS version, 1::int2 AS state, a_token AS token,
					CASE WHEN mine THEN r.fence ELSE greatest(r.fence + 1, now) END AS fence,
					CASE WHEN mine THEN r.attempt WHEN kept THEN r.attempt + 1 ELSE 1 END AS attempt,
					CASE WHEN mine THEN r.vanished WHEN kept THEN r.vanished + r.state ELSE 0 END AS vanished, -- a held one is lapsed
					CASE WHEN kept THEN r.generation ELSE 0 END AS generation,
					CASE WHEN mine THEN r.fingerprint ELSE a_fingerprint END AS fingerprint,
					CASE WHEN mine THEN r.scope ELSE a_scope END AS scope,
					CASE WHEN mine THEN r.label ELSE a_label END AS label,
					CASE WHEN kept THEN r.steps END AS steps,
					now + a_lease AS lease_end, now + a_lease + a_window AS window_end,
					now + a_lease + a_window AS gone, NULL::int4 AS result_sum) n
			) WHERE t.key = a_key AND t.sum = was
			RETURNING * INTO r;
		END IF;
		-- A lock that it waited for took from its lease: then it begins anew. The
		-- token stands, so it counts no attempt.
		IF FOUND AND NOW_MICROS - now <= greatest(a_lease / 2, 20000) THEN
			r.due := now;
			RETURN r;
		END IF;
		tries := tries + 1;
		IF tries = 20 THEN
			RAISE EXCEPTION 'ibid: the record changes faster than it can be read' USING ERRCODE = 'serialization_failure';
		END IF;
	END LOOP;
END $$;
