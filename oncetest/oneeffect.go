package oncetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// Subject is what OneEffect tries.
type Subject struct {
	// Call makes the call, once, and gives nil where it was answered OK: with the same
	// key each time, and no waiting or retrying of its own, which OneEffect does. It is
	// called from several goroutines.
	Call func(ctx context.Context) error
	// Effects counts what stands of the handler's effect: rows, messages, what a fake
	// of the payment service was asked for.
	Effects func() int
}

// Kind is a kind of trouble.
type Kind string

// The kinds of trouble. All but the last three need no more than a guard. Those
// three have the operation run again, or go on, where the effect stands already: the
// handler must look for it where Attempt.Takeover says so, have its effect leave a
// receipt, or take its fencing token to what it changes.
const (
	// SentTwice: the call is made, and once it is answered, made again.
	SentTwice Kind = "sent twice"
	// SentTwiceAtOnce: the call is made again while the first is about to run.
	SentTwiceAtOnce Kind = "sent twice at once"
	// AnswerLost: the caller leaves when the effect has happened, and calls again.
	AnswerLost Kind = "answer lost"
	// ServiceDown: Oncekeeper is away, and back when the call is made again.
	ServiceDown Kind = "service down"
	// Crashed: the process dies between the effect and its record. When the lease has
	// ended the call is made again.
	Crashed Kind = "crashed before settling"
	// LeaseOutlived: the lease ends while the handler, its effect done, is still
	// running, and the call is made again.
	LeaseOutlived Kind = "lease outlived"
	// WokenLate: the handler stalls before it has done anything; its lease ends, and
	// the call is made again and answered. Then it goes on, its context ended.
	WokenLate Kind = "woken late"
)

// Kinds are all kinds of trouble.
func Kinds() []Kind {
	return []Kind{SentTwice, SentTwiceAtOnce, AnswerLost, ServiceDown, Crashed, LeaseOutlived, WokenLate}
}

const (
	// callTimeout bounds one call on the machine's clock: more is a hang.
	callTimeout = 30 * time.Second
	// maxCalls is how often a call is made until it is answered OK.
	maxCalls = 10
)

// OneEffect fails the test unless the subject's effect happens once under each of
// kinds, or where there is none named under all of them, and is answered OK in the
// end. prepare makes the subject anew for each: a guard that asks trial.Client, and
// next to the handler, inside the guard, trial.UnaryServer (or Handler, or Around).
//
// It is driven by the trial's clock and never sleeps.
func OneEffect(t testing.TB, prepare func(t testing.TB, trial *Trial) Subject, kinds ...Kind) {
	t.Helper()
	if len(kinds) == 0 {
		kinds = Kinds()
	}
	for _, kind := range kinds {
		r := run{t: t, kind: kind, trial: &Trial{Server: Start(t)}}
		r.subject = prepare(t, r.trial)
		if strike, ok := strikes[kind]; ok {
			strike(&r)
		} else {
			t.Fatalf("oncetest: %q is no kind of trouble", kind)
		}
		r.finish()
	}
}

// run is the subject under one kind of trouble.
type run struct {
	t       testing.TB
	kind    Kind
	trial   *Trial
	subject Subject
}

var strikes = map[Kind]func(*run){
	SentTwice:       (*run).sendTwice,
	SentTwiceAtOnce: (*run).sendTwiceAtOnce,
	AnswerLost:      (*run).loseAnswer,
	ServiceDown:     (*run).takeServiceDown,
	Crashed:         (*run).crash,
	LeaseOutlived:   (*run).outliveLease,
	WokenLate:       (*run).wakeLate,
}

func (r *run) call() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	err := r.subject.Call(ctx)
	if err != nil && ctx.Err() != nil {
		r.t.Errorf("%s: a call hangs: %v", r.kind, err)
	}
	return err
}

// finish calls until it is answered OK, and once more, and counts.
func (r *run) finish() {
	r.t.Helper()
	answered := errors.New("it was not called")
	for n := 0; n < maxCalls && answered != nil; n++ {
		r.quiet()
		if n > 0 {
			r.trial.EndLeases() // whoever still has the key died
		}
		answered = r.call()
	}
	if answered != nil {
		r.t.Errorf("%s: after %d calls it still gives %v", r.kind, maxCalls, answered)
	}
	r.quiet()
	if err := r.call(); err != nil && answered == nil {
		r.t.Errorf("%s: it was answered OK, and called again gives %v", r.kind, err)
	}
	if r.trial.runs() == 0 {
		r.t.Errorf("%s: no handler was seen to run: place trial.UnaryServer, Handler or Around next to it", r.kind)
	}
	if got := r.subject.Effects(); got != 1 {
		r.t.Errorf("%s: the effect happened %d times, in %d runs of the handler; want once", r.kind, got, r.trial.runs())
	}
}

// quiet waits for what is still going on: nothing, where all is well.
func (r *run) quiet() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := r.trial.quiet(ctx); err != nil {
		r.t.Errorf("%s: a handler runs on, or an attempt is not settled: %v", r.kind, err)
	}
}

func (r *run) sendTwice() {
	_ = r.call()
	_ = r.call()
}

func (r *run) sendTwiceAtOnce() {
	var twin sync.WaitGroup
	r.trial.before = func(ctx context.Context) {
		f, over := r.trial.faults, false
		f.mu.Lock()
		asked := f.asked
		f.mu.Unlock()
		twin.Go(func() {
			_ = r.call()
			f.change(func() { over = true })
		})
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		// It asked for the key, ran, or was answered.
		if err := f.await(ctx, func() bool { return over || f.asked > asked || r.trial.runs() > 1 }); err != nil {
			r.t.Errorf("%s: the second call goes nowhere: %v", r.kind, err)
		}
	}
	_ = r.call()
	twin.Wait()
}

func (r *run) loseAnswer() {
	ctx, leave := context.WithTimeout(context.Background(), callTimeout)
	defer leave()
	r.trial.after = func(context.Context) { leave() }
	_ = r.subject.Call(ctx)
}

func (r *run) takeServiceDown() {
	r.trial.Down()
	_ = r.call()
	r.trial.Up()
}

func (r *run) crash() {
	r.trial.LoseSettlements(1)
	_ = r.call()
	r.quiet()
	r.trial.LoseSettlements(0)
	r.trial.EndLeases()
}

func (r *run) outliveLease() {
	r.trial.after = func(context.Context) {
		r.trial.EndLeases()
		_ = r.call()
	}
	_ = r.call()
}

func (r *run) wakeLate() {
	r.trial.before = func(ctx context.Context) {
		r.trial.faults.mu.Lock()
		guarded := len(r.trial.faults.running) > 0
		r.trial.faults.mu.Unlock()
		r.trial.EndLeases()
		_ = r.call()
		if !guarded {
			return
		}
		wait, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		select {
		case <-ctx.Done():
		case <-wait.Done():
			r.t.Errorf("%s: the lease is lost, and the handler's context goes on", r.kind)
		}
	}
	_ = r.call()
}
