package opshttp

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
)

// probing gives a probe on a clock that the test moves.
func probing(check func(context.Context) error) (*probe, *clock.Manual) {
	clk := clock.NewManual(time.Unix(0, 0))
	return newProbe(check, clk), clk
}

func TestAFloodOfProbesWhileACheckIsUnderWayIsOneCheck(t *testing.T) {
	var checks atomic.Int64
	release := make(chan struct{})
	p, _ := probing(func(context.Context) error {
		checks.Add(1)
		<-release
		return nil
	})
	first := p.begin()
	for range 1000 {
		if p.begin() != first {
			t.Fatal("a second check began beside the first")
		}
	}
	close(release)
	if err := p.ask(t.Context()); err != nil {
		t.Errorf("got %v, want ready", err)
	}
	if n := checks.Load(); n != 1 {
		t.Errorf("%d checks were made, want 1", n)
	}
}

func TestAFloodOfProbesAsksTheStoreOnceASecond(t *testing.T) {
	var checks atomic.Int64
	p, clk := probing(func(context.Context) error {
		checks.Add(1)
		return nil
	})
	const seconds = 10
	for range seconds {
		for range 10 {
			for range 100 {
				if err := p.ask(t.Context()); err != nil {
					t.Fatalf("got %v, want ready", err)
				}
			}
			clk.Advance(100 * time.Millisecond)
		}
	}
	if n := checks.Load(); n != seconds {
		t.Errorf("%d checks were made in %d seconds", n, seconds)
	}
}

func TestAStoreThatHangsIsToldInTimeAndAskedOnce(t *testing.T) {
	var checks atomic.Int64
	release := make(chan struct{})
	p, clk := probing(func(context.Context) error { // heeds no context, as a disk that hangs
		checks.Add(1)
		<-release
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	asked := make(chan error, 1)
	go func() { asked <- p.ask(ctx) }()
	if err := clk.AwaitTimers(ctx, 2); err != nil { // who asks, and the check
		t.Fatal(err)
	}
	clk.Advance(patience)
	if err := <-asked; !errors.Is(err, errHangs) {
		t.Errorf("after %v got %v, want %v", patience, err, errHangs)
	}
	for range 1000 {
		if err := p.ask(ctx); !errors.Is(err, errHangs) {
			t.Fatalf("while it hangs got %v, want %v at once", err, errHangs)
		}
	}
	if n := checks.Load(); n != 1 {
		t.Errorf("%d checks were made, want 1", n)
	}
	hung := p.begin()
	close(release)
	<-hung.done
	if err := p.ask(ctx); err != nil {
		t.Errorf("once it answers again got %v, want ready", err)
	}
}

func TestACheckHasNoLongerThanThoseWhoWaitForIt(t *testing.T) {
	p, clk := probing(func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	a := p.begin()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := clk.AwaitTimers(ctx, 1); err != nil {
		t.Fatal(err)
	}
	clk.Advance(patience)
	<-a.done
	if !errors.Is(a.err, errHangs) {
		t.Errorf("its context ended with %v, want %v", a.err, errHangs)
	}
}

func TestAServerThatStopsIsNotReadyAndAsksNothing(t *testing.T) {
	p, _ := probing(func(context.Context) error {
		t.Error("a check was made")
		return nil
	})
	p.stop()
	if err := p.ask(t.Context()); !errors.Is(err, errStopping) {
		t.Errorf("got %v, want %v", err, errStopping)
	}
}

func TestAServerThatBeganToStopDuringACheckIsNotReady(t *testing.T) {
	release := make(chan struct{})
	p, clk := probing(func(context.Context) error {
		<-release
		return nil
	})
	asked := make(chan error, 1)
	go func() { asked <- p.ask(t.Context()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := clk.AwaitTimers(ctx, 2); err != nil {
		t.Fatal(err)
	}
	p.stop()
	close(release)
	if err := <-asked; !errors.Is(err, errStopping) {
		t.Errorf("got %v, want %v", err, errStopping)
	}
}

func TestWhyItIsNotReadyIsTold(t *testing.T) {
	down := errors.New("down")
	p, _ := probing(func(context.Context) error { return down })
	if err := p.ask(t.Context()); !errors.Is(err, down) {
		t.Errorf("got %v, want %v", err, down)
	}
}
