package httpguard_test

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
)

// then is what the first answer leaves behind.
type then int

const (
	kept     then = iota // replayed
	freed                // the next request runs, as nothing was done
	takeover             // the next request runs, and is told to look
)

// Case 18.
func TestAnAnswerIsKeptByItsStatusCode(t *testing.T) {
	want := map[int]then{}
	for status := 200; status <= 599; status++ {
		want[status] = kept
		if status >= 500 {
			want[status] = takeover
		}
	}
	for status, is := range map[int]then{401: freed, 403: freed, 429: freed, 408: takeover, 409: takeover, 425: takeover, 101: takeover, 600: takeover, 999: takeover} {
		want[status] = is
	}
	k := startKeeper(t)
	first := atomic.Bool{}
	told := atomic.Bool{} // that it took over
	g := &guarded{}
	h := g.handler(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
		told.Store(httpguard.Takeover(r.Context()))
		if first.Load() {
			var status int
			_, _ = fmt.Sscan(r.Header.Get("X-Status"), &status)
			w.WriteHeader(status)
			return
		}
		w.WriteHeader(201)
	}, nil)
	for status, is := range want {
		name := fmt.Sprint(status)
		ask := func() (status int, replayed bool) {
			w := newWriter()
			r := (&guarded{Server: &noServer}).request(t, "k-"+name, "", withHeader("X-Status", name))
			h.ServeHTTP(w, r)
			return w.status, w.header.Get("Idempotency-Replayed") == "true"
		}
		first.Store(true)
		if got, replayed := ask(); got != status || replayed {
			t.Errorf("%d: the first caller gets %d, a replay: %t", status, got, replayed)
		}
		first.Store(false)
		told.Store(false)
		got, replayed := ask()
		switch is {
		case kept:
			if got != status || !replayed {
				t.Errorf("%d: then comes %d, a replay: %t; want the replay", status, got, replayed)
			}
		default:
			if got != 201 || replayed || told.Load() != (is == takeover) {
				t.Errorf("%d: then comes %d, a replay: %t, a takeover: %t; want a run and %t", status, got, replayed, told.Load(), is == takeover)
			}
		}
	}
}

// A takeover believes no code that the first attempt's own effect may have brought
// about.
func TestOnATakeoverOnlyRefusalsOfTheRequestItselfAreKept(t *testing.T) {
	for status, want := range map[int]oncekeeper.State{
		201: oncekeeper.StateCompleted, 303: oncekeeper.StateCompleted,
		400: oncekeeper.StateCompleted, 405: oncekeeper.StateCompleted, 413: oncekeeper.StateCompleted, 415: oncekeeper.StateCompleted,
		402: oncekeeper.StateAbandoned, 404: oncekeeper.StateAbandoned, 410: oncekeeper.StateAbandoned, 412: oncekeeper.StateAbandoned, 422: oncekeeper.StateAbandoned,
		409: oncekeeper.StateAbandoned, 500: oncekeeper.StateAbandoned, 403: oncekeeper.StateReleased,
	} {
		for name, c := range map[string]struct {
			options []httpguard.Option
			want    oncekeeper.State
		}{
			"":                         {nil, want},
			" though it is changed":    {[]httpguard.Option{httpguard.WithStatus(oncekeeper.SettledComplete, 402, 404, 410, 412, 422)}, want},
			" which the operation has": {[]httpguard.Option{httpguard.WithTakeoverStatus(oncekeeper.SettledComplete, 402, 404, 410, 412, 422, 409, 500, 403)}, oncekeeper.StateCompleted},
		} {
			t.Run(fmt.Sprint(status, name), func(t *testing.T) {
				k := startKeeper(t)
				g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
					if httpguard.Takeover(r.Context()) {
						w.WriteHeader(status)
						return
					}
					w.WriteHeader(502)
				}, c.options...)
				mustBe(t, g.charge(t, "k"), 502)
				mustBe(t, g.charge(t, "k"), status)
				if got := k.state(t, "k"); got != c.want {
					t.Errorf("the key is %v, want %v", got, c.want)
				}
			})
		}
	}
}

func TestAnOperationsOwnTableAndItsHandlersWordCount(t *testing.T) {
	type says = oncekeeper.Settlement
	table := []httpguard.Option{
		httpguard.WithStatus(oncekeeper.SettledRetryable, 503, 404), httpguard.WithStatus(oncekeeper.SettledComplete, 409),
		httpguard.WithStatus(oncekeeper.SettledUnknown, 402),
	}
	for name, c := range map[string]struct {
		status int
		says   says
		want   oncekeeper.State
	}{
		"503 as the table says":            {503, 0, oncekeeper.StateReleased},
		"404 as the table says":            {404, 0, oncekeeper.StateReleased},
		"409 as the table says":            {409, 0, oncekeeper.StateCompleted},
		"402 as the table says":            {402, 0, oncekeeper.StateAbandoned},
		"500 by default":                   {500, 0, oncekeeper.StateAbandoned},
		"500 that did nothing":             {500, oncekeeper.SettledRetryable, oncekeeper.StateReleased},
		"500 that is the answer":           {500, oncekeeper.SettledComplete, oncekeeper.StateCompleted},
		"404 that nobody can vouch for":    {404, oncekeeper.SettledUnknown, oncekeeper.StateAbandoned},
		"201 is kept, whatever is said":    {201, oncekeeper.SettledRetryable, oncekeeper.StateCompleted},
		"a word that is none of the three": {500, oncekeeper.SettledFinal, oncekeeper.StateAbandoned},
	} {
		t.Run(name, func(t *testing.T) {
			k := startKeeper(t)
			g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
				httpguard.SettleAs(r.Context(), oncekeeper.SettledUnknown)
				httpguard.SettleAs(r.Context(), c.says) // the last one counts
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, "secret")
			}, table...)
			mustBe(t, g.charge(t, "k"), c.status)
			rec := k.Record(charge("k"))
			if rec.State != c.want {
				t.Errorf("the key is %v, want %v", rec.State, c.want)
			}
			if st := rec.Outcome.Status; st != nil && st.Message != fmt.Sprintf("HTTP %d %s", c.status, http.StatusText(c.status)) {
				t.Errorf("%q is kept of it, want no more than its code", st.Message)
			}
		})
	}
}

// A nested guard's refusal is of another operation, and says nothing final of this
// one.
func TestAnotherGuardsRefusalIsNotKept(t *testing.T) {
	for _, status := range []int{400, 422} {
		k := startKeeper(t)
		inner := serve(t, k, httpguard.Config{}, answers(201, ""))
		mustBe(t, inner.charge(t, "inner"), 201)
		g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
			httpguard.SettleAs(r.Context(), oncekeeper.SettledComplete)
			key := map[int]string{400: `"`, 422: "inner"}[status]
			got := inner.send(t, key, "another", withHeader("X-Depth", "2"))
			for name, values := range got.header {
				w.Header()[name] = values
			}
			w.WriteHeader(got.status)
			_, _ = io.WriteString(w, got.body)
		})
		got := g.charge(t, "k")
		if got.status != status || got.header.Get("Oncekeeper-Reason") != "" {
			t.Errorf("the answer is %d with the reason %q, want the nested one without", got.status, got.header.Get("Oncekeeper-Reason"))
		}
		if got := k.state(t, "k"); got != oncekeeper.StateAbandoned {
			t.Errorf("after a nested %d the key is %v, want ABANDONED", status, got)
		}
	}
}

func TestUnresolvedAndExhaustedKeysSayWhatToDo(t *testing.T) {
	t.Run("unresolved", func(t *testing.T) {
		k := startKeeper(t)
		g := serve(t, k, httpguard.Config{}, answers(500, ""), httpguard.WithHold())
		mustBe(t, g.charge(t, "k"), 500)
		got := g.charge(t, "k")
		p := refusal(t, got, 409, "urn:oncekeeper:unresolved")
		if p.Reason != "UNRESOLVED" || p.AttemptNumber != 1 || got.header.Get("Retry-After") != "" {
			t.Errorf("the refusal is %+v, to be asked again after %q", p, got.header.Get("Retry-After"))
		}
		// Whoever can prove what happened settles with that token.
		_, err := k.Complete(t.Context(), charge("k"), p.FencingToken, &oncekeeper.Response{StatusCode: 201, Body: []byte("it was charged")})
		if err != nil {
			t.Fatal(err)
		}
		if got := g.charge(t, "k"); got.status != 201 || got.body != "it was charged" || g.runs() != 1 {
			t.Errorf("then the answer is %d %q after %d runs", got.status, got.body, g.runs())
		}
		if got := g.guard.Stats(); got != (httpguard.Stats{Ran: 1, Unresolved: 1, Replayed: 1}) {
			t.Errorf("counted %+v", got)
		}
	})
	t.Run("exhausted", func(t *testing.T) {
		k := startKeeper(t)
		g := serve(t, k, httpguard.Config{}, answers(429, ""), httpguard.WithMaxAttempts(2))
		mustBe(t, g.charge(t, "k"), 429)
		mustBe(t, g.charge(t, "k"), 429)
		got := g.charge(t, "k")
		p := refusal(t, got, 409, "urn:oncekeeper:attempts-exhausted")
		if p.Detail != "No further attempt is made. The last one gave: HTTP 429 Too Many Requests" || g.runs() != 2 || got.header.Get("Retry-After") != "" {
			t.Errorf("the refusal says %q after %d runs", p.Detail, g.runs())
		}
	})
}

func TestARequestAsksForWhatItsOptionsSay(t *testing.T) {
	k := startKeeper(t)
	g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		rec := k.Record(charge("k"))
		if want := oncekeeper.InstantOf(k.Clock.Now().Add(10 * time.Second)); rec.LeaseEnd != want || rec.FingerprintScheme != httpguard.Scheme {
			t.Errorf("the lease ends at %v under the scheme %q, want %v and %q", rec.LeaseEnd, rec.FingerprintScheme, want, httpguard.Scheme)
		}
		w.WriteHeader(201)
	}, httpguard.WithLease(10*time.Second), httpguard.WithRetention(time.Hour))
	mustBe(t, g.charge(t, "k"), 201)
	if rec := k.Record(charge("k")); rec.Expires.Time().Sub(rec.Settled.Time()) != time.Hour {
		t.Errorf("it is kept from %v to %v, want an hour", rec.Settled.Time(), rec.Expires.Time())
	}
}
