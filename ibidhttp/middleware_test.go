package ibidhttp_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
	"github.com/ibid-go/ibid/memstore"
)

func TestARetryGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, created())
	first := s.post("k", `{"amount":3000}`)
	if first.Code != 201 || first.Header().Get("Location") != "/payments/1" {
		t.Fatalf("first answer %d %v", first.Code, first.Header())
	}
	wantReplay(t, first, s.post("k", `{"amount":3000}`))
	wantReplay(t, first, s.post(`"k"`, `{"amount":3000}`))
	s.wantRuns(1)
	if e := first.Header().Get("Idempotency-Expires"); e != "86400" {
		t.Errorf("Idempotency-Expires %q", e)
	}
}

func TestWhatIsGuarded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, why string
		opts      *ibidhttp.Options
		method    string
		key       string
		status    int
		typ       string
		runs      int64 // for two requests
	}{
		{"POST", "the default methods", nil, "POST", "k", 201, "", 1},
		{"PUT", "the default methods", nil, "PUT", "k", 201, "", 1},
		{"PATCH", "the default methods", nil, "PATCH", "k", 201, "", 1},
		{"GET", "safe methods bypass", nil, "GET", "k", 201, "", 2},
		{"DELETE", "idempotent by definition", nil, "DELETE", "k", 201, "", 2},
		{"DELETE by option", "a route may guard any method", &ibidhttp.Options{Methods: []string{"DELETE"}}, "DELETE", "k", 201, "", 1},
		{"POST left out by option", "the list replaces the default", &ibidhttp.Options{Methods: []string{"DELETE"}}, "POST", "k", 201, "", 2},
		{"predicate says no", "a predicate replaces the methods", &ibidhttp.Options{Guards: func(*http.Request) bool { return false }}, "POST", "k", 201, "", 2},
		{"predicate says yes", "a predicate replaces the methods", &ibidhttp.Options{Guards: func(*http.Request) bool { return true }}, "GET", "k", 201, "", 1},
		{"no key", "optional by default: it runs unguarded", nil, "POST", "", 201, "", 2},
		{"no key, required", "a required key refuses", &ibidhttp.Options{Required: true}, "POST", "", 400, ibidhttp.TypeKeyMissing, 0},
		{"no key in the body, required", "as for headers", &ibidhttp.Options{Required: true, Key: ibidhttp.FromBody("/ref")}, "POST", "", 400, ibidhttp.TypeKeyMissing, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.opts, created())
			for range 2 {
				w := s.do(at(request(c.key, "{}"), c.method, "/payments"))
				if c.typ != "" {
					wantProblem(t, w, c.status, c.typ)
				} else if w.Code != c.status {
					t.Errorf("status %d: %s", w.Code, c.why)
				}
			}
			s.wantRuns(c.runs)
			if c.runs == 0 && s.store.asked("begin") > 1 { // one is the engine's own
				t.Error("the store was asked")
			}
		})
	}
}

// One line per route, each with its own settings.
func TestRoutesAreWrappedInOneLine(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, created())
	pay := ibidhttp.New(s.engine, ibidhttp.ByHeader(user), &ibidhttp.Options{Required: true})
	mux := http.NewServeMux()
	mux.Handle("POST /payments", pay(created()))
	mux.Handle("POST /refunds/{id}", pay(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(r.PathValue("id")))
	})))
	s.handler = mux
	first := s.post("k", "{}")
	wantReplay(t, first, s.post("k", "{}"))
	if w := s.do(at(request("k", "{}"), "POST", "/refunds/7")); w.Code != 200 || w.Body.String() != "7" {
		t.Errorf("the same key on another route: %d %q", w.Code, w.Body)
	}
	wantProblem(t, s.post("", "{}"), 400, ibidhttp.TypeKeyMissing)
}

func TestKeySpace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		space          ibidhttp.KeySpace
		method, target string
		status         int
	}{
		{"per route: the same route replays", ibidhttp.PerRoute, "POST", "/payments", 201},
		{"per route: another path runs", ibidhttp.PerRoute, "POST", "/refunds", 201},
		{"per route: another method runs", ibidhttp.PerRoute, "PUT", "/payments", 201},
		{"per route: another query is a mismatch", ibidhttp.PerRoute, "POST", "/payments?test=1", 422},
		{"key alone: the same route replays", ibidhttp.KeyAlone, "POST", "/payments", 201},
		{"key alone: another path is a mismatch", ibidhttp.KeyAlone, "POST", "/refunds", 422},
		{"key alone: another method is a mismatch", ibidhttp.KeyAlone, "PUT", "/payments", 422},
		{"key alone: another query is a mismatch", ibidhttp.KeyAlone, "POST", "/payments?test=1", 422},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, &ibidhttp.Options{KeySpace: c.space}, created())
			s.post("k", "{}")
			w := s.do(at(request("k", "{}"), c.method, c.target))
			if w.Code != c.status {
				t.Errorf("status %d, want %d", w.Code, c.status)
			}
			if c.status == 422 {
				wantProblem(t, w, 422, ibidhttp.TypeMismatch)
				s.wantRuns(1)
			}
		})
	}
}

// Two routes behind http.StripPrefix see the same URL.Path; they are not one.
func TestStrippedPrefixesKeepRoutesApart(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, created())
	mux := http.NewServeMux()
	mux.Handle("/v1/", http.StripPrefix("/v1", s.handler))
	mux.Handle("/v2/", http.StripPrefix("/v2", s.handler))
	s.handler = mux
	for _, target := range []string{"/v1/payments", "/v2/payments", "/v1/payments"} {
		s.do(at(request("k", "{}"), "POST", target))
	}
	s.wantRuns(2)
}

func TestScope(t *testing.T) {
	t.Parallel()
	t.Run("two users with one key have two answers", func(t *testing.T) {
		t.Parallel()
		s := serve(t, nil, created())
		a, b := s.post("k", "{}"), s.post("k", "{}", user+": u-2")
		if a.Body.String() == b.Body.String() {
			t.Errorf("one answer for two users: %s", a.Body)
		}
		wantReplay(t, a, s.post("k", "{}"))
		wantReplay(t, b, s.post("k", "{}", user+": u-2"))
		s.wantRuns(2)
	})
	t.Run("parts of scope and key do not mix", func(t *testing.T) {
		t.Parallel()
		s := serve(t, &ibidhttp.Options{KeySpace: ibidhttp.KeyAlone}, created())
		s.post("b:c", "{}", user+": a")
		s.post("c", "{}", user+": a:b")
		s.wantRuns(2)
	})
	t.Run("nobody is refused, and nothing runs", func(t *testing.T) {
		t.Parallel()
		s := serve(t, nil, created())
		r := request("k", "{}")
		r.Header.Del(user)
		wantProblem(t, s.do(r), 403, ibidhttp.TypeScopeMissing)
		r = request("k", "{}")
		r.Header[user] = []string{"u-1", "u-2"}
		wantProblem(t, s.do(r), 403, ibidhttp.TypeScopeMissing)
		s.wantRuns(0)
	})
	t.Run("the status is settable", func(t *testing.T) {
		t.Parallel()
		s := serve(t, &ibidhttp.Options{Statuses: ibidhttp.Statuses{MissingScope: 401}}, created())
		wantProblem(t, s.post("k", "{}", user+": "), 401, ibidhttp.TypeScopeMissing)
	})
	t.Run("shared by all", func(t *testing.T) {
		t.Parallel()
		s := serve(t, nil, created())
		s.handler = ibidhttp.New(s.engine, ibidhttp.SharedByAll, nil)(created())
		wantReplay(t, s.post("k", "{}"), s.post("k", "{}", user+": u-2"))
	})
	t.Run("by principal", func(t *testing.T) {
		t.Parallel()
		s := serve(t, nil, created())
		who := func(r *http.Request) string { n, _, _ := r.BasicAuth(); return n }
		s.handler = ibidhttp.New(s.engine, ibidhttp.ByPrincipal(who), nil)(created())
		wantProblem(t, s.post("k", "{}"), 403, ibidhttp.TypeScopeMissing)
		r := request("k", "{}")
		r.SetBasicAuth("ann", "x")
		if w := s.do(r); w.Code != 201 {
			t.Errorf("status %d", w.Code)
		}
	})
	t.Run("a revoked caller gets 403 from in front, and no replay", func(t *testing.T) {
		t.Parallel()
		s := serve(t, nil, created())
		revoked, inner := false, s.handler
		s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if revoked {
				w.WriteHeader(403)
				return
			}
			inner.ServeHTTP(w, r)
		})
		s.post("k", "{}")
		revoked = true
		if w := s.post("k", "{}"); w.Code != 403 || w.Body.Len() > 0 {
			t.Errorf("got %d %q", w.Code, w.Body)
		}
	})
}

func TestAMismatchIsRefusedAlsoWhileTheFirstRuns(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-leave
		w.WriteHeader(201)
	})
	done := make(chan *httptest.ResponseRecorder)
	go func() { done <- s.post("k", `{"amount":1}`) }()
	<-entered
	wantProblem(t, s.post("k", `{"amount":2}`), 422, ibidhttp.TypeMismatch)
	w := s.post("k", `{"amount":1}`)
	wantProblem(t, w, 409, ibidhttp.TypeInProgress)
	if ra := w.Header().Get("Retry-After"); ra != "2" {
		t.Errorf("Retry-After %q", ra)
	}
	close(leave)
	if w := <-done; w.Code != 201 {
		t.Errorf("status %d", w.Code)
	}
	wantProblem(t, s.post("k", `{"amount":2}`), 422, ibidhttp.TypeMismatch)
	s.wantRuns(1)
}

func TestOptionsThatCannotBeUsedAreRefusedByName(t *testing.T) {
	t.Parallel()
	engine := serve(t, nil, created()).engine
	type opts = ibidhttp.Options
	for _, c := range []struct {
		names string
		opts  *opts
	}{
		{"Header", &opts{Header: "no name"}},
		{"MinLength", &opts{MinLength: 300}},
		{"MinLength", &opts{MinLength: -1}},
		{"MaxLength", &opts{MaxLength: 256}},
		{"KeySpace", &opts{KeySpace: 2}},
		{"Methods", &opts{Methods: []string{"GET POST"}}},
		{"Methods and Options.Guards", &opts{Methods: []string{"GET"}, Guards: func(*http.Request) bool { return true }}},
		{"Fingerprint.Headers", &opts{Fingerprint: ibidhttp.Fingerprint{Headers: []string{""}}}},
		{"Fingerprint.Include", &opts{Fingerprint: ibidhttp.Fingerprint{Include: []string{"a"}}}},
		{"Fingerprint.Exclude", &opts{Fingerprint: ibidhttp.Fingerprint{Exclude: []string{"/a~2"}}}},
		{"KeepHeaders", &opts{KeepHeaders: []string{"Transfer-Encoding"}}},
		{"KeepHeaders", &opts{KeepHeaders: []string{"a b"}}},
		{"DropHeaders", &opts{DropHeaders: []string{"*"}}},
		{"ReplayMarker", &opts{ReplayMarker: "a b"}},
		{"ExpiresHeader", &opts{ExpiresHeader: "a:b"}},
		{"Statuses.Mismatch", &opts{Statuses: ibidhttp.Statuses{Mismatch: 200}}},
		{"Statuses.Unknown", &opts{Statuses: ibidhttp.Statuses{Unknown: 202}}},
		{"Limits", &opts{Limits: ibidhttp.Limits{NewKeys: -1}}},
		{"Probe", &opts{Policy: &ibid.Policy{Takeover: ibid.Probe}}},
		{"Probe", &opts{Policy: &ibid.Policy{Takeover: ibid.Retry}, Probe: func(http.ResponseWriter, *http.Request) ibid.Found { return 0 }}},
		{"Policy", &opts{Policy: &ibid.Policy{Lease: 1}}},
	} {
		t.Run(c.names, func(t *testing.T) {
			t.Parallel()
			defer func() {
				err, _ := recover().(error)
				if !errors.Is(err, ibid.ErrInvalid) || !strings.Contains(err.Error(), "Options."+c.names) {
					t.Errorf("got %v, want ErrInvalid that names Options.%s", err, c.names)
				}
			}()
			ibidhttp.New(engine, ibidhttp.SharedByAll, c.opts)
			t.Errorf("Options.%s was accepted", c.names)
		})
	}
	for name, make := range map[string]func(){
		"engine is nil": func() { ibidhttp.New(nil, ibidhttp.SharedByAll, nil) },
		"scope is nil":  func() { ibidhttp.New(engine, nil, nil) },
		"ByHeader":      func() { ibidhttp.ByHeader("") },
		"ByPrincipal":   func() { ibidhttp.ByPrincipal(nil) },
		"FromHeader":    func() { ibidhttp.FromHeader("a b") },
		"FromBody":      func() { ibidhttp.FromBody("ref") },
		"FromFunc":      func() { ibidhttp.FromFunc(nil) },
		"FirstOf":       func() { ibidhttp.FirstOf() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				err, _ := recover().(error)
				if !errors.Is(err, ibid.ErrInvalid) || !strings.Contains(err.Error(), name) {
					t.Errorf("got %v", err)
				}
			}()
			make()
		})
	}
}

// The engine's own policy counts, too: a route without a probe would answer
// every request with 500.
func TestEngineThatProbesNeedsAProbe(t *testing.T) {
	t.Parallel()
	engine, err := ibid.New(t.Context(), new(memstore.Store), &ibid.Options{Policy: ibid.Policy{Takeover: ibid.Probe}})
	if err != nil {
		t.Fatal(err)
	}
	ibidhttp.New(engine, ibidhttp.SharedByAll, &ibidhttp.Options{Probe: func(http.ResponseWriter, *http.Request) ibid.Found { return 0 }})
	ibidhttp.New(engine, ibidhttp.SharedByAll, &ibidhttp.Options{Policy: &ibid.Policy{Takeover: ibid.Retry}})
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, ibid.ErrInvalid) || !strings.Contains(err.Error(), "Options.Probe") {
			t.Errorf("got %v, want ErrInvalid that names Options.Probe", err)
		}
	}()
	ibidhttp.New(engine, ibidhttp.SharedByAll, nil)
	t.Error("a route without a probe was accepted")
}
