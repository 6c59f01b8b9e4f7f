package pebble

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

func TestAHostClockThatStepsBackChangesNothing(t *testing.T) {
	clk := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	s := mustOpen(t, Config{Dir: "d", FS: vfs.NewMem(), Clock: clk})
	first := s.Apply(t.Context(), testBegin("1", "a"))[0]
	clk.Step(-time.Hour)
	clk.Advance(59 * time.Second)
	if got := s.Apply(t.Context(), testBegin("1", "b"))[0]; got.Verdict != lifecycle.InProgress {
		t.Errorf("a live lease of a minute was %v after 59s and a step back", got.Verdict)
	}
	clk.Advance(time.Second)
	got := s.Apply(t.Context(), testBegin("1", "b"))[0]
	if got.Verdict != lifecycle.Granted || got.Record.Token <= first.Record.Token {
		t.Errorf("after its minute, and a step back of an hour, it was %v", got)
	}
}

func TestARestartOnAHostWhoseClockIsBehindGoesOnFromTheLastMomentWritten(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, Config{Dir: "d", FS: mem, Clock: clock.NewManual(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))})
	first := s.Apply(t.Context(), testBegin("1", "a"))[0]
	mustClose(t, s)
	behind := clock.NewManual(time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC))
	s = mustOpen(t, Config{Dir: "d", FS: mem, Clock: behind})
	if got := s.Apply(t.Context(), testBegin("1", "b"))[0]; got.Now < first.Now || got.Verdict != lifecycle.InProgress {
		t.Errorf("after the restart it is %v, %v: time went back from %v", got.Verdict, got.Now.Time(), first.Now.Time())
	}
	behind.Advance(time.Minute)
	if got := s.Apply(t.Context(), testBegin("1", "b"))[0]; got.Verdict != lifecycle.Granted || !got.Record.Takeover {
		t.Errorf("an abandoned lease had not ended after its minute: %v", got)
	}
}

func TestOneMomentFarAheadDoesNotStopTime(t *testing.T) {
	clk := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	s := mustOpen(t, Config{Dir: "d", FS: vfs.NewMem(), Clock: clk})
	clk.Step(10 * 365 * 24 * time.Hour)
	s.Apply(t.Context(), testBegin("1", "a"))
	clk.Step(-10 * 365 * 24 * time.Hour)
	clk.Advance(time.Minute)
	if got := s.Apply(t.Context(), testBegin("1", "b"))[0]; got.Verdict != lifecycle.Granted {
		t.Errorf("a minute after a moment ten years ahead, a lease of a minute was %v", got.Verdict)
	}
}

func TestRestartsDoNotEndALiveLease(t *testing.T) {
	mem := vfs.NewMem()
	clk := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	s := mustOpen(t, Config{Dir: "d", FS: mem, Clock: clk})
	s.Apply(t.Context(), testBegin("1", "a"))
	for range 5 {
		clk.Advance(10 * time.Second)
		mustClose(t, s)
		s = mustOpen(t, Config{Dir: "d", FS: mem, Clock: clk})
		if got := s.Apply(t.Context(), testBegin("1", "b"))[0]; got.Verdict != lifecycle.InProgress {
			t.Fatalf("a lease of a minute was %v after a restart", got.Verdict)
		}
	}
	clk.Advance(10 * time.Second)
	if got := s.Apply(t.Context(), testBegin("1", "b"))[0]; got.Verdict != lifecycle.Granted {
		t.Errorf("after its minute it was %v", got.Verdict)
	}
}

// hiccup is a clock after whose next reading the process stands still for a second.
type hiccup struct {
	*clock.Manual
	armed bool
}

func (h *hiccup) Now() time.Time {
	defer h.stand()
	return h.Manual.Now()
}

func (h *hiccup) Monotonic() time.Duration {
	defer h.stand()
	return h.Manual.Monotonic()
}

func (h *hiccup) stand() {
	if h.armed {
		h.armed = false
		h.Advance(time.Second)
	}
}

func TestAProcessThatStandsStillBetweenTwoReadingsIsNotAheadOfItsHost(t *testing.T) {
	host := &hiccup{Manual: clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}
	c := newStoreClock(host, 0)
	c.now()
	host.armed = true
	c.now()
	if got, want := c.now(), oncekeeper.InstantOf(host.Now()); got != want {
		t.Errorf("the store's clock is %v ahead of its host's: every live lease ends that much early", got.Sub(want))
	}
}
