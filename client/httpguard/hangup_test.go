package httpguard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// Case 16.
func TestARequestWhoseCallerHangsUpIsSettledAllTheSame(t *testing.T) {
	// Each leaves at another moment; leave returns once the server knows.
	type leaving func(leave func())
	leaves := func(leave func()) { leave() }
	for name, moment := range map[string]struct {
		inHandler, beforeComplete, onComplete leaving
		size                                  int
	}{
		"while the handler runs":                {inHandler: leaves},
		"before it is settled":                  {beforeComplete: leaves},
		"while it is being settled":             {onComplete: leaves},
		"before an answer too large to be kept": {inHandler: leaves, size: limit + 1},
	} {
		t.Run(name, func(t *testing.T) {
			k := startKeeper(t)
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			serverKnows := make(chan struct{})
			leave := func() {
				cancel()
				<-gone
				<-serverKnows
			}
			k.breakWith(func(method string) error {
				if method == "Complete" && moment.beforeComplete != nil {
					moment.beforeComplete(leave)
				}
				return nil
			})
			k.answered(func(method string) {
				if method == "Complete" && moment.onComplete != nil {
					moment.onComplete(leave)
				}
			})
			g := &guarded{}
			guard := g.handler(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
				if moment.inHandler != nil {
					moment.inHandler(leave)
				}
				if _, ok := r.Context().Deadline(); ok || r.Context().Err() != nil {
					t.Errorf("the handler's context ends with its caller: %v", r.Context().Err())
				}
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Errorf("the body is gone with its caller: %v", err)
				}
				w.WriteHeader(201)
				// What goes to a caller that left is no failure of the handler.
				for _, piece := range []string{string(body), strings.Repeat("x", moment.size)} {
					if _, err := io.WriteString(w, piece); err != nil {
						t.Errorf("a write fails with its caller: %v", err)
					}
				}
			}, nil)
			g.Server = startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Leaves") != "" {
					context.AfterFunc(r.Context(), func() { close(serverKnows) })
				}
				guard.ServeHTTP(w, r)
			}))
			go func() {
				defer close(gone)
				if got := g.do(g.request(t, "k", "{}", withHeader("X-Leaves", "1")).WithContext(ctx)); !errors.Is(got.err, context.Canceled) {
					t.Errorf("the caller that left got %d, %v", got.status, got.err)
				}
			}()
			<-gone
			for {
				again := g.send(t, "k", "{}")
				if again.status == http.StatusConflict && again.header.Get("Retry-After") != "" {
					continue // it still runs
				}
				if moment.size > 0 {
					refusal(t, again, http.StatusConflict, "urn:oncekeeper:response-not-kept")
				} else if again.status != 201 || again.body != "{}" || !again.replayed() {
					t.Errorf("the retry got %d %q, a replay: %t; want the replay", again.status, again.body, again.replayed())
				}
				break
			}
			if g.runs() != 1 {
				t.Errorf("the handler ran %d times", g.runs())
			}
		})
	}
}

func TestARequestThatEndedBeforeItBeganIsNotRun(t *testing.T) {
	k, g := startKeeper(t), &guarded{}
	h := g.handler(t, k, httpguard.Config{}, answers(201, ""), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := newWriter()
	h.ServeHTTP(w, (&guarded{Server: &noServer}).request(t, "k", "").WithContext(ctx))
	refusal(t, reply{status: w.status, header: w.header, body: w.body.String()}, http.StatusServiceUnavailable, "urn:oncekeeper:store-unavailable")
	if g.runs() != 0 || g.guard.Stats() != (httpguard.Stats{Left: 1}) {
		t.Errorf("%d runs, counted %+v; want one that left", g.runs(), g.guard.Stats())
	}
}

// Case 20: whatever a handler wrote until it was stopped is no answer.
func TestAnAttemptThatIsStoppedHasAnUnknownOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		write  func(w http.ResponseWriter)
		status int
	}{
		"having said nothing":       {func(http.ResponseWriter) {}, 503},
		"having begun a 201":        {func(w http.ResponseWriter) { w.WriteHeader(201); _, _ = io.WriteString(w, `{"id":`) }, 503},
		"having said 400":           {answersOnly(400), 400},
		"having said that it is so": {answersOnly(504), 504},
	} {
		t.Run(name, func(t *testing.T) {
			k := startKeeper(t)
			g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				if !errors.Is(context.Cause(r.Context()), client.ErrRunTime) {
					t.Errorf("the context ended because %v", context.Cause(r.Context()))
				}
				c.write(w)
			}, httpguard.WithMaxRunTime(time.Millisecond))
			got := g.charge(t, "k")
			if c.status == 503 {
				if refusal(t, got, 503, "urn:oncekeeper:outcome-unknown"); got.header.Get("Retry-After") != "1" {
					t.Errorf("it is to be asked again after %q", got.header.Get("Retry-After"))
				}
			}
			mustBe(t, got, c.status)
			if got := k.state(t, "k"); got != oncekeeper.StateAbandoned {
				t.Errorf("the key is %v, want ABANDONED", got)
			}
			if got := g.guard.Stats(); got != (httpguard.Stats{Ran: 1, NotWhole: 1}) {
				t.Errorf("counted %+v", got)
			}
		})
	}
}

func answersOnly(status int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(status) }
}

func TestAPanicIsSettledAsUnknownAndGoesOnUp(t *testing.T) {
	for name, fault := range map[string]any{"of its own": "at the disco", "to abort": http.ErrAbortHandler} {
		t.Run(name, func(t *testing.T) {
			k, g := startKeeper(t), &guarded{}
			guard := g.handler(t, k, httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(201)
				_, _ = io.WriteString(w, "charged")
				panic(fault)
			}, nil)
			g.Server = startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() {
					if got := recover(); got != fault {
						t.Errorf("the panic is %v, want %v", got, fault)
					}
					w.WriteHeader(http.StatusTeapot) // nothing went out
				}()
				guard.ServeHTTP(w, r)
			}))
			mustBe(t, g.charge(t, "k"), http.StatusTeapot)
			if got := k.state(t, "k"); got != oncekeeper.StateAbandoned {
				t.Errorf("the key is %v, want ABANDONED", got)
			}
		})
	}
}

func TestASupersededAttemptsCallerGetsTheOutcomeThatCounts(t *testing.T) {
	for name, mine := range map[string]int{"that answered": 201, "that refused": 404, "that failed": 500} {
		t.Run(name, func(t *testing.T) {
			k := startKeeper(t)
			g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
				takeOver(t, k, r, &oncekeeper.Response{StatusCode: 201, Body: []byte("other")})
				w.Header().Set("Location", "/mine")
				w.WriteHeader(mine)
				_, _ = io.WriteString(w, "mine")
			})
			got := g.charge(t, "k")
			refusal(t, got, http.StatusConflict, "urn:oncekeeper:in-progress")
			if got.header.Get("Retry-After") != "1" || got.header.Get("Location") != "" {
				t.Errorf("the answer has the header %v, want a delay and nothing of the attempt's", got.header)
			}
			if again := g.charge(t, "k"); again.status != 201 || again.body != "other" || g.runs() != 1 {
				t.Errorf("the retry got %d %q after %d runs; want the other's answer after one", again.status, again.body, g.runs())
			}
			if got := g.guard.Stats(); got != (httpguard.Stats{Ran: 1, Superseded: 1, Replayed: 1}) {
				t.Errorf("counted %+v", got)
			}
		})
	}
}

func TestWhereOncekeeperCannotBeAskedNothingRuns(t *testing.T) {
	overloaded, _ := oncekeeper.SentinelOf(oncekeeper.ErrOverloaded)
	for name, c := range map[string]struct {
		err   error
		kind  string
		delay string
	}{
		"down":        {status.Error(codes.Unavailable, "connection refused by db.internal"), "urn:oncekeeper:store-unavailable", "1"},
		"not allowed": {status.Error(codes.PermissionDenied, "not this guard"), "urn:oncekeeper:store-unavailable", "1"},
		"overloaded":  {wire.Status(overloaded, chargeOp, wire.Details{RetryDelay: 2500 * time.Millisecond}).Err(), "urn:oncekeeper:overloaded", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			k := startKeeper(t)
			k.connect(client.WithRetryBudget(0, 0))
			g := serve(t, k, httpguard.Config{}, answers(201, ""))
			k.breakWith(func(string) error { return c.err })
			got := g.charge(t, "k")
			refusal(t, got, http.StatusServiceUnavailable, c.kind)
			if got.header.Get("Retry-After") != c.delay || strings.Contains(got.body, "internal") {
				t.Errorf("the answer is %q, to be asked again after %q", got.body, got.header.Get("Retry-After"))
			}
			if g.runs() != 0 {
				t.Errorf("the handler ran %d times", g.runs())
			}
			k.breakWith(nil)
			mustBe(t, g.charge(t, "k"), 201)
			if got := g.guard.Stats(); got != (httpguard.Stats{Unavailable: 1, Ran: 1}) {
				t.Errorf("counted %+v, want one unavailable and one that ran", got)
			}
		})
	}
}

func TestAnAnswerThatCouldNotBeSettledIsGivenAllTheSame(t *testing.T) {
	k := startKeeper(t)
	k.connect(client.WithSettleTimeout(10 * time.Millisecond)) // it is tried again all that while
	g := serve(t, k, httpguard.Config{}, answers(201, "charged"), httpguard.WithHold())
	k.breakWith(func(method string) error {
		if method == "Complete" {
			return status.Error(codes.PermissionDenied, "the credential expired meanwhile")
		}
		return nil
	})
	if got := g.charge(t, "k"); got.status != 201 || got.body != "charged" || got.replayed() {
		t.Errorf("the answer is %d %q; want the handler's", got.status, got.body)
	}
	k.breakWith(nil)
	refusal(t, g.charge(t, "k"), http.StatusConflict, "urn:oncekeeper:in-progress") // the lease runs
	k.Clock.Advance(time.Minute)
	refusal(t, g.charge(t, "k"), http.StatusConflict, "urn:oncekeeper:unresolved")
	if g.runs() != 1 {
		t.Errorf("the handler ran %d times", g.runs())
	}
}
