package httpguard_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
)

func TestWhileARequestRunsItsKeyIsInProgress(t *testing.T) {
	k := startKeeper(t)
	var g *guarded
	g = serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		got := g.charge(t, "k")
		p := refusal(t, got, http.StatusConflict, "urn:oncekeeper:in-progress")
		if p.Reason != "IN_PROGRESS" || got.header.Get("Retry-After") != "1" {
			t.Errorf("the refusal is %+v, to be asked again after %q", p, got.header.Get("Retry-After"))
		}
		w.WriteHeader(201)
	})
	mustBe(t, g.charge(t, "k"), 201)
	if got := g.guard.Stats(); got != (httpguard.Stats{Ran: 1, InProgress: 1}) {
		t.Errorf("counted %+v", got)
	}
}

func TestDuplicatesAtOnceRunOnceAndAllGetTheAnswer(t *testing.T) {
	k := startKeeper(t)
	begun := make(chan struct{}, 64)
	k.breakWith(func(method string) error {
		if method == "Begin" {
			begun <- struct{}{}
		}
		return nil
	})
	const callers = 20
	g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
		for range callers { // all have asked by now
			<-begun
		}
		answers(201, "charged")(w, r)
	}, httpguard.WithWait(time.Minute))
	var asking sync.WaitGroup
	first := make(chan reply, callers)
	for range callers {
		asking.Go(func() { first <- g.do(g.request(t, "k", "{}")) })
	}
	asking.Wait()
	replayed := 0
	for range callers {
		got := <-first
		if got.status != 201 || got.body != "charged" {
			t.Errorf("a caller gets %d %q, %v", got.status, got.body, got.err)
		}
		if got.replayed() {
			replayed++
		}
	}
	if g.runs() != 1 || replayed != callers-1 {
		t.Errorf("%d runs and %d replays, want 1 and %d", g.runs(), replayed, callers-1)
	}
}

func TestAnAbandonedRequestIsTakenOver(t *testing.T) {
	k := startKeeper(t)
	begun, err := k.Begin(t.Context(), client.BeginRequest{Key: charge("k")}) // and its process dies
	if err != nil || begun.Grant == nil {
		t.Fatalf("Begin gives %+v, %v", begun, err)
	}
	g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
		a, ok := httpguard.AttemptFrom(r.Context())
		if !ok || !httpguard.Takeover(r.Context()) || a.Number() != 2 || a.Token() <= begun.Grant.Token || a.Key() != charge("k") {
			t.Errorf("the attempt is %+v", a)
		}
		if inner, ok := client.AttemptFromContext(r.Context()); !ok || inner != a {
			t.Error("the client package knows of another attempt")
		}
		w.WriteHeader(201)
	})
	refusal(t, g.charge(t, "k"), http.StatusConflict, "urn:oncekeeper:in-progress")
	k.Clock.Advance(time.Hour)
	mustBe(t, g.charge(t, "k"), 201)
	if got := k.state(t, "k"); got != oncekeeper.StateCompleted {
		t.Errorf("the key is %v", got)
	}
}

func TestAfterTheRetentionARequestIsANewOne(t *testing.T) {
	k := startKeeper(t)
	g := serve(t, k, httpguard.Config{}, answers(201, ""), httpguard.WithRetention(time.Hour))
	mustBe(t, g.charge(t, "k"), 201)
	k.Clock.Advance(time.Hour - time.Second)
	if got := g.charge(t, "k"); !got.replayed() {
		t.Error("within the retention it is no replay")
	}
	k.Clock.Advance(time.Second)
	if got := g.charge(t, "k"); got.replayed() || g.runs() != 2 {
		t.Errorf("past the retention it is a replay: %t, after %d runs", got.replayed(), g.runs())
	}
}

func TestAGuardTwiceAroundAHandlerSaysSo(t *testing.T) {
	k, g := startKeeper(t), &guarded{}
	var outer http.Handler
	depth := 0
	outer = g.handler(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
		if depth++; depth > 1 {
			t.Error("the inner handler ran")
			return
		}
		outer.ServeHTTP(w, r)
	}, nil)
	w := newWriter()
	h := (&guarded{Server: &noServer}).request(t, "k", "")
	outer.ServeHTTP(w, h)
	refusal(t, reply{status: w.status, header: w.header, body: w.body.String()}, http.StatusInternalServerError, "about:blank")
}
