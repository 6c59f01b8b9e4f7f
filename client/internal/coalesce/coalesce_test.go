package coalesce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
)

// call is one that is under way: of one item, or of many.
type call struct {
	ctx    context.Context
	asked  []int
	shared bool
	end    chan struct{}
}

// meeting is a Sharer whose calls the test sees and ends.
type meeting struct {
	*Sharer[int, int]
	calls []*call
	mu    sync.Mutex
	// verdict, where set, is what of a shared call's items n gets.
	verdict func(n int) Answer[int]
}

var errRefused = errors.New("refused")

func newMeeting() *meeting {
	m := &meeting{}
	m.Sharer = New(func(ctx context.Context, asked []int) []Answer[int] {
		m.make(ctx, asked, true)
		answers := make([]Answer[int], len(asked))
		for i, n := range asked {
			answers[i] = Answer[int]{Value: 10 * n}
			if m.verdict != nil {
				answers[i] = m.verdict(n)
			}
		}
		return answers
	}, clock.System)
	return m
}

// make makes a call and waits for its end.
func (m *meeting) make(ctx context.Context, asked []int, shared bool) {
	c := &call{ctx: ctx, asked: asked, shared: shared, end: make(chan struct{})}
	m.mu.Lock()
	m.calls = append(m.calls, c)
	m.mu.Unlock()
	select {
	case <-c.end:
	case <-ctx.Done():
	}
}

type told struct {
	value int
	err   error
}

// ask has a caller come with n, of key n.
func (m *meeting) ask(ctx context.Context, n int) <-chan told {
	return m.askItem(ctx, ctx, Item[int]{Ask: n, Key: oncekeeper.Key{ID: fmt.Sprint(n)}, Bytes: 100})
}

func (m *meeting) askItem(caller, ctx context.Context, item Item[int]) <-chan told {
	answer := make(chan told, 1)
	go func() {
		value, err := m.Ask(caller, ctx, item, func() (int, error) {
			m.make(ctx, []int{item.Ask}, false)
			return 10 * item.Ask, ctx.Err()
		})
		answer <- told{value, err}
	}()
	synctest.Wait()
	return answer
}

// occupy has as many callers under way as there may be calls.
func (m *meeting) occupy(t *testing.T) []*call {
	t.Helper()
	for i := range MaxUnderWay {
		m.ask(t.Context(), -1-i)
	}
	if len(m.calls) != MaxUnderWay {
		t.Fatalf("%d calls are under way, want %d", len(m.calls), MaxUnderWay)
	}
	return slices.Clone(m.calls)
}

func (m *meeting) end(c *call) {
	close(c.end)
	synctest.Wait()
}

// endAll ends every call that comes, and sees that nothing is left.
func (m *meeting) endAll(t *testing.T) {
	t.Helper()
	for i := 0; i < len(m.calls); i++ {
		select {
		case <-m.calls[i].end:
		default:
			m.end(m.calls[i])
		}
	}
	if m.underWay != 0 || len(m.queue) != 0 {
		t.Errorf("%d calls are under way and %d callers wait, want none", m.underWay, len(m.queue))
	}
}

func wantTold(t *testing.T, answer <-chan told, want told) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-answer:
		if got.value != want.value || !errors.Is(got.err, want.err) {
			t.Errorf("a caller is told %+v, want %+v", got, want)
		}
	default:
		t.Errorf("a caller is told nothing, want %+v", want)
	}
}

func TestALoneCallerGoesAtOnceAndAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting()
		answer := m.ask(t.Context(), 7)
		if len(m.calls) != 1 || m.calls[0].shared {
			t.Fatalf("%d calls are under way, want one of its own", len(m.calls))
		}
		m.endAll(t)
		wantTold(t, answer, told{value: 70})
	})
}

func TestWhoWaitsSharesTheNextCallAndGetsItsOwnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting()
		busy := m.occupy(t)
		m.verdict = func(n int) Answer[int] {
			if n == 2 {
				return Answer[int]{Err: errRefused}
			}
			return Answer[int]{Value: 100 * n}
		}
		answers := []<-chan told{m.ask(t.Context(), 1), m.ask(t.Context(), 2), m.ask(t.Context(), 3)}
		if len(m.calls) != MaxUnderWay {
			t.Fatalf("%d calls are under way, want %d", len(m.calls), MaxUnderWay)
		}
		m.end(busy[0])
		shared := m.calls[len(m.calls)-1]
		if !slices.Equal(shared.asked, []int{1, 2, 3}) {
			t.Fatalf("the next call asks %v, want 1, 2, 3", shared.asked)
		}
		m.endAll(t)
		wantTold(t, answers[0], told{value: 100})
		wantTold(t, answers[1], told{err: errRefused})
		wantTold(t, answers[2], told{value: 300})
	})
}

func TestTwoOfOneKeyAndTwoOfDifferentMetadataGoInTwoCalls(t *testing.T) {
	for name, second := range map[string]Item[int]{
		"one key": {Ask: 2, Key: oncekeeper.Key{ID: "1"}}, "other metadata": {Ask: 2, Key: oncekeeper.Key{ID: "2"}, With: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMeeting()
				busy := m.occupy(t)
				one := m.askItem(t.Context(), t.Context(), Item[int]{Ask: 1, Key: oncekeeper.Key{ID: "1"}})
				two := m.askItem(t.Context(), t.Context(), second)
				three := m.ask(t.Context(), 3)
				m.end(busy[0])
				if shared := m.calls[len(m.calls)-1]; !slices.Equal(shared.asked, []int{1, 3}) {
					t.Errorf("the next call asks %v, want 1 and 3", shared.asked)
				}
				m.endAll(t)
				wantTold(t, one, told{value: 10})
				wantTold(t, two, told{value: 20})
				wantTold(t, three, told{value: 30})
			})
		})
	}
}

func TestACallerThatLeavesEndsNobodyElsesCallAndTheLastEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting()
		busy := m.occupy(t)
		one, leaveOne := context.WithCancel(t.Context())
		two, leaveTwo := context.WithCancel(t.Context())
		defer leaveTwo()
		first, second := m.ask(one, 1), m.ask(two, 2)
		m.end(busy[0])
		shared := m.calls[len(m.calls)-1]
		leaveOne()
		wantTold(t, first, told{err: context.Canceled})
		if shared.ctx.Err() != nil {
			t.Fatal("the call ended with the first of its callers")
		}
		leaveTwo()
		wantTold(t, second, told{err: context.Canceled})
		if shared.ctx.Err() == nil {
			t.Error("the call goes on, and nobody is there")
		}
		m.endAll(t)
	})
}

func TestACallerThatLeavesBeforeItsTurnIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting()
		busy := m.occupy(t)
		caller, leave := context.WithCancel(t.Context())
		// It would be heard out for a while, had it been sent.
		gone := m.askItem(caller, t.Context(), Item[int]{Ask: 1, Key: oncekeeper.Key{ID: "1"}})
		lingers := m.askItem(caller, t.Context(), Item[int]{Ask: 2, Key: oncekeeper.Key{ID: "2"}})
		stays := m.ask(t.Context(), 3)
		leave()
		wantTold(t, gone, told{err: ErrNotSent})
		wantTold(t, lingers, told{err: ErrNotSent})
		m.end(busy[0])
		if last := m.calls[len(m.calls)-1]; !slices.Equal(last.asked, []int{3}) || last.shared {
			t.Errorf("the next call asks %v, want 3 alone", last.asked)
		}
		m.endAll(t)
		wantTold(t, stays, told{value: 30})
	})
}

func TestACallerThatLeavesOnceItWasSentIsHeardOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting()
		busy := m.occupy(t)
		caller, leave := context.WithCancel(t.Context())
		one := m.askItem(caller, t.Context(), Item[int]{Ask: 1, Key: oncekeeper.Key{ID: "1"}})
		m.ask(t.Context(), 2)
		m.end(busy[0])
		leave()
		m.endAll(t)
		wantTold(t, one, told{value: 10})
	})
}

func TestWhatIsToBeAskedAloneIsAskedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting()
		busy := m.occupy(t)
		m.verdict = func(n int) Answer[int] { return Answer[int]{Value: 100 * n, Alone: n == 1} }
		one, two := m.ask(t.Context(), 1), m.ask(t.Context(), 2)
		m.end(busy[0])
		m.endAll(t)
		wantTold(t, one, told{value: 10})
		wantTold(t, two, told{value: 200})
	})
}

func TestALargeItemAndOnePastTheQueueGoAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting()
		m.occupy(t)
		large := m.askItem(t.Context(), t.Context(), Item[int]{Ask: 1, Bytes: MaxItemBytes + 1})
		if last := m.calls[len(m.calls)-1]; !slices.Equal(last.asked, []int{1}) {
			t.Errorf("the last call asks %v, want the large item", last.asked)
		}
		for n := range MaxQueued {
			m.ask(t.Context(), 100+n)
		}
		past := m.ask(t.Context(), 2)
		if last := m.calls[len(m.calls)-1]; !slices.Equal(last.asked, []int{2}) {
			t.Errorf("the last call asks %v, want the one that found the queue full", last.asked)
		}
		m.endAll(t)
		wantTold(t, large, told{value: 10})
		wantTold(t, past, told{value: 20})
	})
}

func TestWhoHasNoTurnInTimeGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting()
		m.occupy(t)
		one := m.ask(t.Context(), 1)
		time.Sleep(MaxTurn - time.Nanosecond)
		two := m.ask(t.Context(), 2)
		if len(m.calls) != MaxUnderWay {
			t.Fatalf("%d calls are under way, want the %d that hang", len(m.calls), MaxUnderWay)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if last := m.calls[len(m.calls)-1]; !slices.Equal(last.asked, []int{1}) || last.shared || m.Waiting() != 1 {
			t.Errorf("the last call asks %v, and %d wait; want 1 alone, and one that waits", last.asked, m.Waiting())
		}
		m.endAll(t)
		wantTold(t, one, told{value: 10})
		wantTold(t, two, told{value: 20})
	})
}

func TestACallThatPanicsLetsTheNextLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting()
		crash := make(chan struct{})
		for range MaxUnderWay {
			go func() {
				defer func() { _ = recover() }()
				_, _ = m.Ask(t.Context(), t.Context(), Item[int]{}, func() (int, error) { <-crash; panic("crash") })
			}()
		}
		synctest.Wait()
		one, two := m.ask(t.Context(), 1), m.ask(t.Context(), 2)
		close(crash)
		synctest.Wait()
		m.endAll(t)
		wantTold(t, one, told{value: 10})
		wantTold(t, two, told{value: 20})
	})
}

// Callers come and leave as they please, and each that stays is answered.
func TestEachOfAThousandCallersGetsItsOwnAnswer(t *testing.T) {
	s := New(func(_ context.Context, asked []int) []Answer[int] {
		answers := make([]Answer[int], len(asked))
		for i, n := range asked {
			answers[i] = Answer[int]{Value: 10 * n, Alone: n%7 == 0}
		}
		return answers
	}, clock.System)
	var all sync.WaitGroup
	for n := range 1000 {
		all.Go(func() {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if rand.IntN(4) == 0 {
				go leave()
			}
			item := Item[int]{Ask: n, Key: oncekeeper.Key{ID: fmt.Sprint(n % 300)}, Bytes: 1}
			got, err := s.Ask(ctx, ctx, item, func() (int, error) { return 10 * n, nil })
			if got != 10*n && err == nil || err != nil && ctx.Err() == nil {
				t.Errorf("caller %d is told %d, %v", n, got, err)
			}
		})
	}
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) != 0 {
		t.Errorf("%d still wait", len(s.queue))
	}
}

func TestWhoLeavesInTheInstantThatItIsToLeadStillLeads(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 100 {
		m := newMeeting()
		m.underWay = MaxUnderWay
		w, _ := m.enter(Item[int]{})
		m.next()
		if err := m.await(gone, gone, w); err != nil || !w.leads {
			t.Fatalf("it is told %v, and the call that it was to make is never over", err)
		}
	}
}
