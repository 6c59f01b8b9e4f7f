package receipttest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

func testTogether(t *testing.T, b Backend) {
	for _, isolation := range b.Isolations {
		t.Run(isolation, func(t *testing.T) {
			tryAll(t, func(t *testing.T) Database { return b.Open(t, isolation) }, together)
		})
	}
}

// held is an attempt whose function waits inside its transaction, its effect made.
type held struct {
	leave  chan error // what its function gives
	answer string
	err    error
	permit *receipt.Permit
	done   chan struct{}
}

func (h *hands) hold(c receipt.Claim, answer string) *held {
	ctx, p := h.attempt(c)
	a := &held{leave: make(chan error, 1), permit: p, done: make(chan struct{})}
	inside := make(chan struct{})
	var once sync.Once
	go func() {
		defer close(a.done)
		a.answer, a.err = h.InTx(ctx, func(ctx context.Context, tx Tx) (string, error) {
			if err := tx.Effect(ctx, c.Key.ID); err != nil {
				return "", err
			}
			once.Do(func() { close(inside) })
			select {
			case err := <-a.leave:
				return answer, err
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
	}()
	select {
	case <-inside:
	case <-a.done:
		h.Fatalf("it ended before its function did: %v", a.err)
	}
	return a
}

func (a *held) end(with error) {
	a.leave <- with
	<-a.done
}

var together = []check{
	{"a second attempt waits for an uncommitted one, and gets its answer", func(h *hands) {
		first := h.hold(claimOf("k", 1), "first")
		second := h.inBackground(claimOf("k", 2), "second")
		h.AwaitWaiting(h.T, 1)
		first.end(nil)
		h.wantAnswer(first.answer, first.err, "first")
		got := <-second
		h.wantAnswer(got.answer, got.err, "first")
		h.wantApplied(got.permit, "first")
		h.wantEffects("k", 1)
	}},
	{"a second attempt waits for an uncommitted one, and runs where that rolls back", func(h *hands) {
		first := h.hold(claimOf("k", 1), "first")
		second := h.inBackground(claimOf("k", 2), "second")
		h.AwaitWaiting(h.T, 1)
		first.end(errFunction)
		h.wantGone(first.err, errFunction)
		got := <-second
		h.wantAnswer(got.answer, got.err, "second")
		h.wantEffects("k", 1)
	}},
	{"closing waits for an uncommitted attempt, and gives what it applied", func(h *hands) {
		first := h.hold(claimOf("k", 1), "first")
		closed := make(chan error, 1)
		var row *receipt.Receipt
		go func() {
			var err error
			row, err = h.Close(h.ctx, claimOf("k", 1), 2)
			closed <- err
		}()
		h.AwaitWaiting(h.T, 1)
		first.end(nil)
		if h.want(<-closed, nil); !row.Applied() || row.Token != 1 {
			h.Errorf("closing gave %+v, want what was applied", row)
		}
	}},
	{"closing waits for an uncommitted attempt, and fences it where that rolls back", func(h *hands) {
		first := h.hold(claimOf("k", 1), "first")
		closed := make(chan error, 1)
		go func() {
			_, err := h.Close(h.ctx, claimOf("k", 1), 2)
			closed <- err
		}()
		h.AwaitWaiting(h.T, 1)
		first.end(errFunction)
		h.want(<-closed, nil)
		_, err, _ := h.apply(claimOf("k", 1), "late")
		h.wantGone(err, oncekeeper.ErrFenced)
		h.wantEffects("k", 0)
	}},
	{"closing that does not wait to the end proves nothing and leaves nothing", func(h *hands) {
		first := h.hold(claimOf("k", 1), "first")
		ctx, cancel := context.WithCancel(h.ctx)
		closed := make(chan error, 1)
		go func() {
			_, err := h.Close(ctx, claimOf("k", 1), 2)
			closed <- err
		}()
		h.AwaitWaiting(h.T, 1)
		cancel()
		h.want(<-closed, context.Canceled)
		first.end(nil)
		h.wantAnswer(first.answer, first.err, "first")
		h.wantEffects("k", 1)
	}},
	{"looking does not wait, and sees nothing uncommitted", func(h *hands) {
		first := h.hold(claimOf("k", 1), "first")
		h.wantReceipt(keyOf("k"), nil)
		first.end(nil)
		h.wantReceipt(keyOf("k"), &receipt.Receipt{FingerprintScheme: "raw", Fingerprint: []byte("request"), Token: 1, Response: responseOf("first")})
	}},
	{"a second call of the same attempt at the same time is refused", func(h *hands) {
		ctx, _ := h.attempt(claimOf("k", 1))
		var ran, twice atomic.Int32
		var all sync.WaitGroup
		inside, leave := make(chan struct{}), make(chan struct{})
		all.Go(func() {
			_, err := h.InTx(ctx, func(ctx context.Context, tx Tx) (string, error) {
				ran.Add(1)
				close(inside)
				<-leave
				return "", tx.Effect(ctx, "k")
			})
			h.want(err, nil)
		})
		<-inside
		for range 4 {
			all.Go(func() {
				_, err := h.InTx(ctx, func(context.Context, Tx) (string, error) { ran.Add(1); return "", nil })
				if errors.Is(err, receipt.ErrTwice) && twice.Add(1) == 4 {
					close(leave)
				}
			})
		}
		all.Wait()
		if ran.Load() != 1 || twice.Load() != 4 {
			h.Errorf("%d functions ran and %d calls were refused, want 1 and 4", ran.Load(), twice.Load())
		}
	}},
	{"of many attempts at once, each with its token, one has its effect and all its answer", func(h *hands) {
		const attempts = 8
		var all [attempts]<-chan outcome
		for i := range all {
			all[i] = h.inBackground(claimOf("k", int64(i)), fmt.Sprint("of ", i))
		}
		var answer string
		for _, one := range all {
			got := <-one
			if got.err != nil || answer != "" && got.answer != answer {
				h.Errorf("one got %q, %v, and another %q", got.answer, got.err, answer)
			}
			answer = got.answer
		}
		h.wantEffects("k", 1)
	}},
	{"functions that collide with each other are run again", func(h *hands) {
		// Each reads what the other writes: under SERIALIZABLE one of them fails, and at
		// any level both end.
		var all [2]<-chan outcome
		var met sync.WaitGroup
		met.Add(2)
		for i := range all {
			own, other := fmt.Sprint(i), fmt.Sprint(1-i)
			var runs int
			ctx, p := h.attempt(claimOf(own, 1))
			all[i] = h.background(p, func() (string, error) {
				return h.InTx(ctx, func(ctx context.Context, tx Tx) (string, error) {
					if runs++; runs == 1 && !h.OneWriter() {
						met.Done()
						met.Wait()
					}
					seen, err := tx.Count(ctx, other)
					if err != nil {
						return "", err
					}
					return fmt.Sprint(seen), tx.Effect(ctx, own)
				})
			})
		}
		for _, one := range all {
			got := <-one
			h.want(got.err, nil)
		}
		h.wantEffects("0", 1)
		h.wantEffects("1", 1)
	}},
}

type outcome struct {
	answer string
	err    error
	permit *receipt.Permit
}

func (h *hands) inBackground(c receipt.Claim, answer string) <-chan outcome {
	ctx, p := h.attempt(c)
	return h.background(p, func() (string, error) {
		return h.InTx(ctx, func(ctx context.Context, tx Tx) (string, error) { return answer, tx.Effect(ctx, c.Key.ID) })
	})
}

func (h *hands) background(p *receipt.Permit, do func() (string, error)) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		got, err := do()
		done <- outcome{got, err, p}
	}()
	return done
}
