package attach_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/attach"
	"github.com/oncekeeper/oncekeeper/clock"
)

// api answers HTTP as it is told to, and remembers what it was sent.
type api struct {
	clock *clock.Manual

	mu      sync.Mutex
	answers []func(w http.ResponseWriter) // the last one is given for good
	calls   []httpCall
}

type httpCall struct {
	keys []string
	body string
	at   time.Duration
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	a.mu.Lock()
	a.calls = append(a.calls, httpCall{keys: r.Header.Values("Idempotency-Key"), body: string(body), at: a.clock.Monotonic()})
	answer := func(w http.ResponseWriter) { w.WriteHeader(201) }
	if len(a.answers) > 0 {
		answer = a.answers[min(len(a.calls), len(a.answers))-1]
	}
	a.mu.Unlock()
	answer(w)
}

func (a *api) seen() []httpCall {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

// serveHTTP serves a, and gives a client whose transport counts on a's clock, which
// moves on by itself while something waits on it.
func serveHTTP(t *testing.T, a *api, options ...attach.Option) (*http.Client, string) {
	t.Helper()
	a.clock = clock.NewManual(time.Now().Truncate(time.Second))
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	go func() {
		for a.clock.AwaitTimers(t.Context(), 1) == nil {
			a.clock.Advance(5 * time.Millisecond)
		}
	}()
	transport := attach.NewTransport(server.Client().Transport, append([]attach.Option{attach.WithClock(a.clock)}, options...)...)
	return &http.Client{Transport: transport}, server.URL
}

func inProgress(after string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Oncekeeper-Reason", "IN_PROGRESS")
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"type": "urn:oncekeeper:in-progress"}`)
	}
}

func answered(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(code) }
}

func created(w http.ResponseWriter) {
	w.WriteHeader(201)
	_, _ = io.WriteString(w, "charged")
}

// posted sends a request with a body that can be given anew, unless changed.
func posted(t *testing.T, c *http.Client, ctx context.Context, url string, changes ...func(*http.Request)) (int, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("amount=5"))
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(r)
	}
	response, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("the answer's body: %v", err)
	}
	return response.StatusCode, string(body), nil
}

func everyRequest(*http.Request) bool { return true }

func TestARequestThatNamesNoKeyIsGivenOneForAllItsAttempts(t *testing.T) {
	a := &api{answers: []func(http.ResponseWriter){inProgress("1"), inProgress("1"), created}}
	c, url := serveHTTP(t, a, attach.WithRequests(everyRequest))
	code, body, err := posted(t, c, t.Context(), url, func(r *http.Request) {
		t.Cleanup(func() {
			if r.Header.Get("Idempotency-Key") != "" {
				t.Error("the caller's own request was changed")
			}
		})
	})
	if err != nil || code != 201 || body != "charged" {
		t.Fatalf("the answer is %v %q, %v", code, body, err)
	}
	calls := a.seen()
	if len(calls) != 3 {
		t.Fatalf("%d attempts, want 3", len(calls))
	}
	for n, call := range calls {
		if len(call.keys) != 1 || call.keys[0] != calls[0].keys[0] || !uuidv7.MatchString(strings.Trim(call.keys[0], `"`)) || call.keys[0][0] != '"' {
			t.Errorf("attempt %d has the keys %q, want one UUIDv7 in quotes, that of attempt 0 %q", n, call.keys, calls[0].keys)
		}
		if call.body != "amount=5" {
			t.Errorf("attempt %d has the body %q", n, call.body)
		}
	}
	if _, _, err := posted(t, c, t.Context(), url); err != nil || a.seen()[3].keys[0] == calls[0].keys[0] {
		t.Errorf("the next request has %q, %v; want a key of its own", a.seen()[3].keys, err)
	}
}

func TestTheKeyOfARequestIsWhatItsCallerNames(t *testing.T) {
	header := func(values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Idempotency-Key"] = values }
	}
	method := func(m string) func(*http.Request) { return func(r *http.Request) { r.Method = m } }
	for name, c := range map[string]struct {
		key     *string
		changes []func(*http.Request)
		want    []string // "*": a new one
		refused string
	}{
		"none, and selected":           {nil, nil, []string{"*"}, ""},
		"by context":                   {str("order-17"), nil, []string{`"order-17"`}, ""},
		"with a quote and a backslash": {str(`a"b\c`), nil, []string{`"a\"b\\c"`}, ""},
		"by a quoted header":           {nil, []func(*http.Request){header(`"k"`)}, []string{`"k"`}, ""},
		"by a bare header":             {nil, []func(*http.Request){header("k")}, []string{"k"}, ""},
		"by both, alike":               {str("k"), []func(*http.Request){header("k")}, []string{"k"}, ""},
		"by both, and they differ":     {str("secret"), []func(*http.Request){header("k")}, nil, "another key"},
		"by an empty one":              {str(""), nil, nil, "is empty"},
		"by an empty header":           {nil, []func(*http.Request){header("")}, nil, "is empty"},
		"by two headers":               {nil, []func(*http.Request){header("a", "b")}, nil, "more than once"},
		"by one outside ASCII":         {str("caf\u00e9"), nil, nil, "printable ASCII"},
		"by one that ends the header":  {str("k\r\nX-Secret: 1"), nil, nil, "printable ASCII"},
		"of a GET":                     {str("k"), []func(*http.Request){method("GET")}, nil, ""},
		"of a HEAD":                    {nil, []func(*http.Request){method("HEAD")}, nil, ""},
		"of a DELETE":                  {str("k"), []func(*http.Request){method("DELETE")}, []string{`"k"`}, ""},
		"of one not selected":          {nil, []func(*http.Request){func(r *http.Request) { r.URL.Path = "/other" }}, nil, ""},
		"of one not selected, named":   {str("k"), []func(*http.Request){func(r *http.Request) { r.URL.Path = "/other" }}, []string{`"k"`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{}
			client, url := serveHTTP(t, a, attach.WithRequests(func(r *http.Request) bool { return r.URL.Path != "/other" }))
			ctx := t.Context()
			if c.key != nil {
				ctx = attach.WithKey(ctx, *c.key)
			}
			body := &closes{Reader: strings.NewReader("amount=5")}
			_, _, err := posted(t, client, ctx, url, append(c.changes, func(r *http.Request) { r.Body = body })...)
			if body.count() == 0 {
				t.Error("the request's body was not closed")
			}
			if c.refused != "" {
				if !errors.Is(err, oncekeeper.ErrInvalidRequest) || !strings.Contains(err.Error(), c.refused) || strings.Contains(err.Error(), "ecret") || len(a.seen()) != 0 {
					t.Errorf("it gives %v after %d attempts, want a refusal that says %q and nothing of the key", err, len(a.seen()), c.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := a.seen()[0].keys
			if len(c.want) == 1 && c.want[0] == "*" && len(got) == 1 && uuidv7.MatchString(strings.Trim(got[0], `"`)) {
				return
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the keys are %q, want %q", got, c.want)
			}
		})
	}
}

func str(s string) *string { return &s }

// closes counts how often it is closed, and by whom read after that.
type closes struct {
	io.Reader
	mu sync.Mutex
	n  int
}

func (c *closes) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return nil
}

func (c *closes) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func TestOnlyAnotherAttemptOfThisRequestIsWaitedFor(t *testing.T) {
	reason := func(code int, values ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header()["Oncekeeper-Reason"] = values
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(code)
		}
	}
	unavailable := attach.WithRetryUnavailable()
	for name, c := range map[string]struct {
		answer  func(http.ResponseWriter)
		options []attach.Option
		again   bool
	}{
		"in progress":                            {inProgress("1"), nil, true},
		"in progress, with no delay":             {inProgress(""), nil, true},
		"a conflict of the API's own":            {answered(409), nil, false},
		"a conflict of the API's own to wait on": {reason(409), nil, false},
		"unresolved":                             {reason(409, "UNRESOLVED"), nil, false},
		"a reason sent twice":                    {reason(409, "IN_PROGRESS", "IN_PROGRESS"), nil, false},
		"another code with that reason":          {reason(400, "IN_PROGRESS"), nil, false},
		"a mismatch":                             {reason(422, "FINGERPRINT_MISMATCH"), []attach.Option{unavailable}, false},
		"503":                                    {reason(503, "STORE_UNAVAILABLE"), nil, false},
		"503, by option":                         {reason(503, "STORE_UNAVAILABLE"), []attach.Option{unavailable}, true},
		"503 of a proxy, by option":              {answered(503), []attach.Option{unavailable}, true},
		"500":                                    {answered(500), []attach.Option{unavailable}, false},
		"429":                                    {reason(429), []attach.Option{unavailable}, false},
		"502":                                    {answered(502), []attach.Option{unavailable}, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{answers: []func(http.ResponseWriter){c.answer, created}}
			client, url := serveHTTP(t, a, c.options...)
			_, body, err := posted(t, client, attach.WithKey(t.Context(), "k"), url)
			if err != nil || (body == "charged") != c.again || len(a.seen()) > 2 {
				t.Errorf("it gives %q, %v after %d attempts; again: %t", body, err, len(a.seen()), c.again)
			}
		})
	}
}

func TestRetryAfterIsTheLeastThatIsWaited(t *testing.T) {
	for after, least := range map[string]time.Duration{"3": 3 * time.Second, "0": 0, "-3": 0, "soon": 0, "99999999999": 0} {
		a := &api{answers: []func(http.ResponseWriter){inProgress(after), created}}
		c, url := serveHTTP(t, a)
		if _, body, err := posted(t, c, attach.WithKey(t.Context(), "k"), url); err != nil || body != "charged" {
			t.Fatalf("%q: %q, %v", after, body, err)
		}
		calls := a.seen()
		if waited := calls[1].at - calls[0].at; waited < least || waited > least+least/5+time.Second {
			t.Errorf("%q: waited %v, want %v and at most a fifth more", after, waited, least)
		}
	}
	a := &api{}
	c, url := serveHTTP(t, a)
	a.answers = []func(http.ResponseWriter){inProgress(a.clock.Now().Add(4 * time.Second).UTC().Format(http.TimeFormat)), created}
	if _, body, err := posted(t, c, attach.WithKey(t.Context(), "k"), url); err != nil || body != "charged" {
		t.Fatalf("a date: %q, %v", body, err)
	}
	calls := a.seen()
	if waited := calls[1].at - calls[0].at; waited < 3*time.Second || waited > 6*time.Second {
		t.Errorf("a date in 4 s: waited %v", waited)
	}
}

func TestTheLastAnswerIsGivenWhereThereIsNoTimeForAnother(t *testing.T) {
	t.Run("by the maximum", func(t *testing.T) {
		a := &api{answers: []func(http.ResponseWriter){inProgress("3")}}
		c, url := serveHTTP(t, a, attach.WithMaxElapsed(10*time.Second))
		code, body, err := posted(t, c, attach.WithKey(t.Context(), "k"), url)
		if err != nil || code != 409 || !strings.Contains(body, "in-progress") || len(a.seen()) != 3 && len(a.seen()) != 4 {
			t.Errorf("it gives %v %q, %v after %d attempts", code, body, err, len(a.seen()))
		}
	})
	t.Run("by the deadline", func(t *testing.T) {
		a := &api{answers: []func(http.ResponseWriter){inProgress("7200")}}
		c, url := serveHTTP(t, a)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if code, _, err := posted(t, c, attach.WithKey(ctx, "k"), url); err != nil || code != 409 || len(a.seen()) != 1 {
			t.Errorf("it gives %v, %v after %d attempts", code, err, len(a.seen()))
		}
	})
	t.Run("by the budget", func(t *testing.T) {
		a := &api{answers: []func(http.ResponseWriter){answered(503)}}
		c, url := serveHTTP(t, a, attach.WithRetryUnavailable(), attach.WithBudget(4, 0.1))
		if code, _, err := posted(t, c, attach.WithKey(t.Context(), "k"), url); err != nil || code != 503 || len(a.seen()) != 2 {
			t.Errorf("it gives %v, %v after %d attempts, want 2", code, err, len(a.seen()))
		}
	})
}

func TestACallerThatLeavesWaitsNoLonger(t *testing.T) {
	a := &api{answers: []func(http.ResponseWriter){inProgress("3600")}}
	a.clock = clock.NewManual(time.Now())
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	transport := attach.NewTransport(server.Client().Transport, attach.WithClock(a.clock), attach.WithMaxElapsed(10*time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_ = a.clock.AwaitTimers(t.Context(), 1)
		cancel()
	}()
	_, _, err := posted(t, &http.Client{Transport: transport}, attach.WithKey(ctx, "k"), server.URL)
	if !errors.Is(err, context.Canceled) || len(a.seen()) != 1 {
		t.Errorf("it gives %v after %d attempts", err, len(a.seen()))
	}
}

// What a refusal says is read, or its connection would be of no more use.
func TestAWaitCostsNoConnections(t *testing.T) {
	a := &api{answers: []func(http.ResponseWriter){inProgress("1"), inProgress("1"), inProgress("1"), created}}
	c, url := serveHTTP(t, a)
	var made int
	ctx := httptrace.WithClientTrace(attach.WithKey(t.Context(), "k"), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			made++
		}
	}})
	if _, body, err := posted(t, c, ctx, url); err != nil || body != "charged" || made != 1 {
		t.Errorf("it gives %q, %v on %d connections, want one", body, err, made)
	}
}

// A body that cannot be given anew is sent once.
func TestNoBodyIsSentTwice(t *testing.T) {
	a := &api{answers: []func(http.ResponseWriter){inProgress("1"), created}}
	c, url := serveHTTP(t, a)
	body := &closes{Reader: strings.NewReader("amount=5")}
	code, _, err := posted(t, c, attach.WithKey(t.Context(), "k"), url, func(r *http.Request) {
		r.Body, r.GetBody = body, nil
	})
	if err != nil || code != 409 || len(a.seen()) != 1 || a.seen()[0].body != "amount=5" || body.count() == 0 {
		t.Errorf("it gives %v, %v after %+v; closed %d times", code, err, a.seen(), body.count())
	}
	broken := func(r *http.Request) {
		r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("the file is gone") }
	}
	a.answers = []func(http.ResponseWriter){inProgress("1")}
	if code, _, err := posted(t, c, attach.WithKey(t.Context(), "k"), url, broken); err != nil || code != 409 || len(a.seen()) != 2 {
		t.Errorf("with a GetBody that fails it gives %v, %v after %d attempts", code, err, len(a.seen()))
	}
}

func TestABodyIsGivenAnewForEachAttempt(t *testing.T) {
	a := &api{answers: []func(http.ResponseWriter){inProgress("1"), inProgress("1"), created}}
	c, url := serveHTTP(t, a)
	var bodies []*closes
	fresh := func() *closes {
		body := &closes{Reader: bytes.NewReader([]byte("amount=5"))}
		bodies = append(bodies, body)
		return body
	}
	_, _, err := posted(t, c, attach.WithKey(t.Context(), "k"), url, func(r *http.Request) {
		r.Body, r.GetBody = fresh(), func() (io.ReadCloser, error) { return fresh(), nil }
	})
	if err != nil || len(bodies) != 3 {
		t.Fatalf("%d bodies were made, %v; want one for each of 3 attempts", len(bodies), err)
	}
	for n, body := range bodies {
		if a.seen()[n].body != "amount=5" || body.count() == 0 {
			t.Errorf("attempt %d had %q, closed %d times", n, a.seen()[n].body, body.count())
		}
	}
}

// roundTrips is a base of its own.
type roundTrips func(*http.Request) (*http.Response, error)

func (f roundTrips) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAConnectionThatFailedIsTriedAgainByOption(t *testing.T) {
	down := errors.New("connection refused")
	for name, c := range map[string]struct {
		err     error
		url     string
		options []attach.Option
		want    int // attempts
	}{
		"by default":              {down, "http://charges.test", nil, 1},
		"by option":               {down, "http://charges.test", []attach.Option{attach.WithRetryUnavailable()}, 2},
		"a caller that left":      {fmt.Errorf("dial: %w", context.Canceled), "http://charges.test", []attach.Option{attach.WithRetryUnavailable()}, 1},
		"an address that is none": {down, "ftp://charges.test", []attach.Option{attach.WithRetryUnavailable()}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			base := roundTrips(func(r *http.Request) (*http.Response, error) {
				if attempts++; attempts == 1 {
					return nil, c.err
				}
				if body, err := io.ReadAll(r.Body); err != nil || string(body) != "amount=5" {
					t.Errorf("attempt %d has the body %q, %v", attempts, body, err)
				}
				return &http.Response{StatusCode: 201, Body: http.NoBody, Header: http.Header{}}, nil
			})
			k := clock.NewManual(time.Now())
			go func() {
				for k.AwaitTimers(t.Context(), 1) == nil {
					k.Advance(5 * time.Millisecond)
				}
			}()
			client := &http.Client{Transport: attach.NewTransport(base, append(c.options, attach.WithClock(k))...)}
			_, _, err := posted(t, client, attach.WithKey(t.Context(), "k"), c.url)
			if attempts != c.want || (err == nil) != (c.want == 2) || c.want == 1 && !errors.Is(err, c.err) {
				t.Errorf("it gives %v after %d attempts, want %d", err, attempts, c.want)
			}
		})
	}
}

func TestATransportOfNothingIsTheDefaultOne(t *testing.T) {
	a := &api{clock: clock.NewManual(time.Now())}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	c := &http.Client{Transport: attach.NewTransport(nil)}
	defer c.CloseIdleConnections()
	r, err := http.NewRequestWithContext(attach.WithKey(t.Context(), "k"), http.MethodPost, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = nil // a RoundTripper may be given that
	response, err := c.Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if got := a.seen()[0].keys; !slices.Equal(got, []string{`"k"`}) {
		t.Errorf("the keys are %q", got)
	}
}
