package httpguard_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
)

func TestAGuardedWriterClaimsNothingThatItDoesNotDo(t *testing.T) {
	g := serve(t, startKeeper(t), httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		if _, ok := w.(http.Flusher); ok {
			t.Error("it claims to flush")
		}
		if _, ok := w.(http.Hijacker); ok {
			t.Error("it claims to hijack")
		}
		c := http.NewResponseController(w)
		if err := c.Flush(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Flush gives %v", err)
		}
		if _, _, err := c.Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Hijack gives %v", err)
		}
		if err := c.EnableFullDuplex(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("EnableFullDuplex gives %v", err)
		}
		w.WriteHeader(201)
	})
	mustBe(t, g.charge(t, "k"), 201)
}

// Server-sent events go through a route that is not guarded, as they are written.
func TestEventsStreamThroughAnUnguardedRoute(t *testing.T) {
	more := make(chan struct{})
	g := serve(t, startKeeper(t), httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-more // the caller has the first event before there is a second
		_, _ = io.WriteString(w, "data: 2\n\n")
	})
	response, err := g.Client().Transport.RoundTrip(g.request(t, "", "", func(r *http.Request) { r.Method = http.MethodGet }))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	first := make([]byte, len("data: 1\n\n"))
	if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "data: 1\n\n" {
		t.Fatalf("the first event is %q, %v", first, err)
	}
	close(more)
	if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "data: 2\n\n" {
		t.Errorf("the rest is %q, %v", rest, err)
	}
}

// As net/http's own writer does.
func TestABodyThatDoesNotFitItsHeadIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		declared string
		status   int
		pieces   []string
		errs     []error
		body     string
		whole    bool
	}{
		"as declared":         {"7", 201, []string{"cha", "rged"}, []error{nil, nil}, "charged", true},
		"nothing, as said":    {"0", 201, nil, nil, "", true},
		"shorter":             {"8", 201, []string{"charged"}, []error{nil}, "charged", false},
		"longer by a write":   {"7", 201, []string{"charged", "!"}, []error{nil, http.ErrContentLength}, "charged", true},
		"longer in one write": {"7", 201, []string{"charged!"}, []error{http.ErrContentLength}, "", false},
		"where none is":       {"7", 204, []string{"charged"}, []error{http.ErrBodyNotAllowed}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			k := startKeeper(t)
			g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", c.declared)
				w.WriteHeader(c.status)
				for n, piece := range c.pieces {
					if _, err := io.WriteString(w, piece); !errors.Is(err, c.errs[n]) || (err == nil) != (c.errs[n] == nil) {
						t.Errorf("write %d gives %v, want %v", n, err, c.errs[n])
					}
				}
			})
			got := g.do(g.request(t, "k", ""))
			if got.status != c.status || got.body != c.body || (got.err == nil) != c.whole {
				t.Errorf("the first caller gets %d %q, %v; want %d %q", got.status, got.body, got.err, c.status, c.body)
			}
			want := oncekeeper.StateCompleted
			if !c.whole {
				want = oncekeeper.StateAbandoned
			}
			if got := k.state(t, "k"); got != want {
				t.Errorf("the key is %v, want %v", got, want)
			}
		})
	}
}

func TestAnAnswersTrailersReachTheFirstCaller(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "too large to keep": limit + 1} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, startKeeper(t), httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Trailer", "X-Sum, X-Missing")
				writes(size, size, false)(w, r)
				w.Header().Set("X-Sum", "42")
				w.Header().Set(http.TrailerPrefix+"X-Late", "43")
				w.Header().Set("X-Undeclared", "44")
			})
			got := g.charge(t, "k")
			if len(got.body) != size || got.trailer.Get("X-Sum") != "42" || got.trailer.Get("X-Late") != "43" || got.trailer.Get("X-Undeclared") != "" {
				t.Errorf("the first caller gets %d bytes and the trailer %v", len(got.body), got.trailer)
			}
		})
	}
}

func TestWhatIsWrittenWhenTheHandlerHasReturnedCountsForNothing(t *testing.T) {
	k := startKeeper(t)
	var late http.ResponseWriter
	g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		late = w
		_, _ = io.WriteString(w, "charged")
	})
	mustBe(t, g.charge(t, "k"), 200)
	late.WriteHeader(500)
	if n, err := io.WriteString(late, "and more"); n != 0 || err == nil {
		t.Errorf("a late write gives %d, %v", n, err)
	}
	if got := g.charge(t, "k"); got.body != "charged" {
		t.Errorf("the replay is %q", got.body)
	}
}

func TestAnInvalidStatusCodeIsThePanicThatItIsElsewhere(t *testing.T) {
	k, g := startKeeper(t), &guarded{}
	h := g.handler(t, k, httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(99) }, nil)
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "99") {
			t.Errorf("the panic is %q", text)
		}
		if got := k.state(t, "k"); got != oncekeeper.StateAbandoned {
			t.Errorf("the key is %v, want ABANDONED", got)
		}
	}()
	h.ServeHTTP(newWriter(), (&guarded{Server: &noServer}).request(t, "k", ""))
}

func TestManyMayWriteOneAnswer(t *testing.T) {
	g := serve(t, startKeeper(t), httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		var writers sync.WaitGroup
		for range 8 {
			writers.Go(func() {
				for range 100 {
					_, _ = io.WriteString(w, "xxxx")
				}
			})
		}
		writers.Wait()
	})
	for range 2 {
		if got := g.charge(t, "k"); len(got.body) != 3200 {
			t.Errorf("the answer has %d bytes", len(got.body))
		}
	}
}

func TestAGuardWorksOverHTTP2(t *testing.T) {
	k, g := startKeeper(t), &guarded{}
	h := g.handler(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the request came by %s", r.Proto)
		}
		if r.URL.Path == "/large" {
			takeOver(t, k, r, &oncekeeper.Response{StatusCode: 201, Body: []byte("other")})
			writes(limit+1000, 1000, false)(w, r)
			return
		}
		w.Header().Set("Trailer", "X-Sum")
		echo(w, r)
		w.Header().Set("X-Sum", "42")
	}, nil)
	g.Server = httptest.NewUnstartedServer(h)
	g.EnableHTTP2 = true
	g.StartTLS()
	t.Cleanup(g.Close)

	got := g.charge(t, "k")
	if got.status != 201 || got.body != `{"amount": 5}` || got.trailer.Get("X-Sum") != "42" {
		t.Errorf("the first caller gets %d %q with the trailer %v", got.status, got.body, got.trailer)
	}
	if got := g.charge(t, "k", unsized(`{"amount":5}`)); got.body != `{"amount": 5}` || !got.replayed() {
		t.Errorf("a replay is %q", got.body)
	}
	refusal(t, g.charge(t, "", withHeader("Idempotency-Key", "a", "b")), 400, "urn:oncekeeper:invalid-request")
	large := func(r *http.Request) { r.URL.Path = "/large" }
	if got := g.do(g.request(t, "large", "", large)); got.err == nil {
		t.Errorf("a superseded answer comes whole, with %d bytes", len(got.body))
	}
	if got := g.send(t, "large", "", large); got.body != "other" {
		t.Errorf("its retry gets %q", got.body)
	}
}

func TestATimeoutOutsideOfTheGuardLeavesAnAttemptThatIsSettled(t *testing.T) {
	k, g := startKeeper(t), &guarded{}
	release := make(chan struct{})
	h := g.handler(t, k, httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		<-release
		answers(201, "charged")(w, nil)
	}, nil)
	g.Server = startServer(t, http.TimeoutHandler(h, 20*time.Millisecond, "too slow"))
	key := ""
	for n := 0; g.runs() == 0; n++ { // some machines take longer to begin one
		if key = fmt.Sprint("k", n); n == 1000 {
			t.Fatal("no request is begun in 20 ms")
		}
		mustBe(t, g.charge(t, key), http.StatusServiceUnavailable)
	}
	ran := g.runs() // one before may have been begun just behind its time-out
	close(release)
	for {
		w := newWriter() // without the time-out
		h.ServeHTTP(w, (&guarded{Server: &noServer}).request(t, key, `{"amount": 5}`))
		if w.status == http.StatusConflict {
			continue
		}
		if w.status != 201 || w.body.String() != "charged" || w.header.Get("Idempotency-Replayed") != "true" || g.runs() != ran {
			t.Errorf("then comes %d %q after %d runs", w.status, &w.body, g.runs())
		}
		return
	}
}
