package opshttp

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

func TestAFloodOfProbesIsOneCheck(t *testing.T) {
	var checks atomic.Int64
	release := make(chan struct{})
	p := newProbe(func(context.Context) error {
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
	var asking sync.WaitGroup
	asking.Go(func() {
		if err := p.ask(t.Context()); err != nil {
			t.Errorf("got %v, want ready", err)
		}
	})
	asking.Wait()
	if n := checks.Load(); n != 1 {
		t.Errorf("%d checks were made, want 1", n)
	}
}

func TestAServerThatStopsIsNotReadyAndAsksNothing(t *testing.T) {
	p := newProbe(func(context.Context) error {
		t.Error("a check was made")
		return nil
	})
	p.stop()
	if err := p.ask(t.Context()); !errors.Is(err, errStopping) {
		t.Errorf("got %v, want %v", err, errStopping)
	}
}

func TestWhyItIsNotReadyIsTold(t *testing.T) {
	down := errors.New("down")
	if err := newProbe(func(context.Context) error { return down }).ask(t.Context()); !errors.Is(err, down) {
		t.Errorf("got %v, want %v", err, down)
	}
}
