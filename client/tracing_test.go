package client_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

// ledger is a Tracer that notes what it is told, by the key's id.
type ledger struct {
	mu   sync.Mutex
	told map[string][]client.Seen
}

type entry struct {
	of *ledger
	id string
}

func (l *ledger) Start(ctx context.Context, key oncekeeper.Key) (context.Context, client.Span) {
	return ctx, entry{of: l, id: key.ID}
}

func (e entry) TraceParent() string { return "trace of " + e.id }

func (e entry) End(seen client.Seen) {
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	if e.of.told == nil {
		e.of.told = map[string][]client.Seen{}
	}
	e.of.told[e.id] = append(e.of.told[e.id], seen)
}

func TestCallersWhoShareACallAreEachBegunInTheirOwnTrace(t *testing.T) {
	c := newCrowd(t, "Begin")
	spans := &ledger{}
	client.WithTracer(spans)(c.keeper)
	const callers = 20
	_, errs := c.begun(t, callers, func(i int) (client.BeginAnswer, error) {
		_, err := client.Do(t.Context(), c.keeper, keyNumber(i), func(context.Context, *client.Attempt) (int, error) { return i, nil })
		return client.BeginAnswer{}, err
	})
	if c.seen("BatchBegin") == 0 {
		t.Error("no call was shared, so this shows nothing")
	}
	for i := range callers {
		id := keyNumber(i).ID
		if errs[i] != nil {
			t.Errorf("%s: %v", id, errs[i])
		}
		if rec := c.record(keyNumber(i)); rec.TraceParent != "trace of "+id {
			t.Errorf("%s was begun in %q", id, rec.TraceParent)
		}
		if told := spans.told[id]; len(told) != 1 || !told[0].Result.Ran || told[0].Grant == nil || told[0].Crashed {
			t.Errorf("of %s was told %+v", id, told)
		}
	}
}

func TestOfManyAttemptsThatAreMetTheNewestAreTold(t *testing.T) {
	w := newWorld(t)
	spans := &ledger{}
	client.WithTracer(spans)(w.keeper)
	running := func(n int) client.BeginAnswer {
		return client.BeginAnswer{InProgress: &client.InProgress{TraceParent: fmt.Sprint("trace ", n)}}
	}
	var answers []client.BeginAnswer
	for n := range client.MaxMet + 3 {
		answers = append(answers, running(n), running(n), client.BeginAnswer{InProgress: &client.InProgress{}})
	}
	answers = append(answers, client.BeginAnswer{Outcome: &oncekeeper.Outcome{TraceParent: fmt.Sprint("trace ", client.MaxMet+2)}})
	w.keeper.Sees(t.Context(), key, answers...)
	met := spans.told[key.ID][0].Met
	if len(met) != client.MaxMet {
		t.Fatalf("%d are told, want %d: %v", len(met), client.MaxMet, met)
	}
	for i, m := range met {
		want := client.Met{TraceParent: fmt.Sprint("trace ", i+3), As: client.MetRunning}
		if i == client.MaxMet-1 {
			want.As = client.MetOutcome // it ran, and then gave the outcome
		}
		if m != want {
			t.Errorf("number %d is %v, want %v", i, m, want)
		}
	}
}
