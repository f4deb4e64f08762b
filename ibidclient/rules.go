package ibidclient

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ibid-go/ibid"
)

// The rules: a problem type that is known decides; 422 is never retried; what the
// server says by header is obeyed; then the status decides, as in the table
// below. A replay is always final: the same answer would come again.

// verdict is what follows from one attempt.
type verdict struct {
	outcome Outcome // of this attempt, when its answer is no success
	again   bool    // ask again
	sure    bool    // outcome holds for the operation, whatever happened to earlier attempts
	success bool    // the answer is one: below 400, and not a request to ask again
	name    string  // problem type or error code, where it is known
	kind    error   // the sentinel that name stands for
}

// statuses is what follows from a status where nothing else is said.
var statuses = map[int]verdict{
	http.StatusConflict:            {outcome: Unknown, again: true}, // in progress, unless it is a problem of the application's own
	http.StatusTooEarly:            {outcome: NotExecuted, again: true},
	http.StatusTooManyRequests:     {outcome: NotExecuted, again: true},
	http.StatusInternalServerError: {outcome: Unknown},
	http.StatusBadGateway:          {outcome: Unknown, again: true},
	http.StatusServiceUnavailable:  {outcome: Unknown, again: true},
	http.StatusGatewayTimeout:      {outcome: Unknown, again: true},
}

// unseen are statuses that are commonly answered before a key is looked at:
// they say nothing of earlier attempts, unless they are replays.
var unseen = map[int]bool{
	http.StatusUnauthorized: true, http.StatusForbidden: true, http.StatusNotFound: true,
	http.StatusMethodNotAllowed: true, http.StatusProxyAuthRequired: true, http.StatusRequestTimeout: true,
	http.StatusRequestEntityTooLarge: true, http.StatusMisdirectedRequest: true, http.StatusTooEarly: true,
	http.StatusUpgradeRequired: true, http.StatusPreconditionRequired: true, http.StatusTooManyRequests: true,
	http.StatusRequestHeaderFieldsTooLarge: true, http.StatusUnavailableForLegalReasons: true,
}

// classify returns what follows from resp, whose body it may read ahead.
func classify(resp *http.Response, marker string) verdict {
	status := resp.StatusCode
	if status < http.StatusBadRequest && status != http.StatusAccepted {
		return verdict{success: true}
	}
	replayed := marked(resp, marker)
	name, v, foreign := problemOf(resp)
	if name != "" {
		v.name = name
		v.again = v.again && status != http.StatusUnprocessableEntity
		return v
	}
	if status == http.StatusAccepted {
		if replayed || resp.Header.Get("Retry-After") == "" {
			return verdict{success: true}
		}
		// Still processing; or the final answer of a service that only accepts,
		// which the next attempt gets as a replay.
		return verdict{outcome: Unknown, again: true, kind: ibid.ErrInProgress}
	}
	v, ok := statuses[status]
	switch {
	case !ok && status >= http.StatusInternalServerError:
		v = verdict{outcome: Unknown}
	case !ok:
		v = verdict{outcome: Refused}
	}
	v.sure = replayed || v.outcome == Refused && !unseen[status]
	switch say := should(resp.Header); {
	case status == http.StatusUnprocessableEntity:
		v.again = false
	case say != 0:
		v.again = say > 0
	case replayed, foreign && status == http.StatusConflict:
		v.again = false
	case status == http.StatusInternalServerError:
		v.again = resp.Header.Get("Retry-After") != ""
	}
	if !v.again && status == http.StatusConflict {
		v.outcome, v.sure = Refused, true
	}
	return v
}

// marked reports whether resp says that it is a replay. The marker is in
// canonical form; "" is none.
func marked(resp *http.Response, marker string) bool {
	v := resp.Header[marker]
	return len(v) > 0 && strings.EqualFold(v[0], "true")
}

// should returns what the server says about retrying: 1 yes, -1 no, 0 nothing.
func should(h http.Header) int {
	switch strings.ToLower(h.Get("Stripe-Should-Retry")) {
	case "true":
		return 1
	case "false":
		return -1
	}
	if strings.EqualFold(h.Get("Transient-Error"), "true") {
		return 1
	}
	return 0
}

// retryAfter returns how long the server asks to wait; negative when it does
// not say. A date is compared with the server's own, where it sent one: only
// then do the two clocks not matter.
func retryAfter(resp *http.Response) time.Duration {
	v := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if v == "" {
		return -1
	}
	if n, err := strconv.ParseUint(v, 10, 63); err == nil {
		return time.Duration(min(n, uint64(maxWait/time.Second))) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return -1
	}
	now, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), 0), maxWait)
}

// maxWait keeps what a server says within the range of a Duration.
const maxWait = 100 * 365 * 24 * time.Hour

// seconds returns the header's number of seconds. The name is in canonical form; "" is none.
func seconds(h http.Header, name string) (time.Duration, bool) {
	v := h[name]
	if len(v) == 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(v[0], 10, 63)
	return time.Duration(min(n, uint64(maxWait/time.Second))) * time.Second, err == nil
}
