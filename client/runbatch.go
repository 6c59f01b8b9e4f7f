package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"

	"github.com/oncekeeper/oncekeeper"
)

// Granted is one attempt of a batch: its function says of each how it ended. Its
// methods may be called from any goroutine until the function has returned.
type Granted struct {
	*Attempt
	// Item is the index of its request in what RunBatch was given.
	Item int

	ctx  context.Context
	mu   sync.Mutex
	told *Ended
}

// Context is of this attempt alone: it carries the attempt, and the leave that InTx
// takes, and ends when this lease is lost, whatever becomes of its neighbours.
func (g *Granted) Context() context.Context { return g.ctx }

// End says how the attempt ended. What is said last counts.
func (g *Granted) End(e Ended) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told = &e
	g.setNotRun(nil)
}

// NotRun says that nothing of the attempt was done, because of why (nil: no reason):
// its grant is given back and counts as no attempt, and its error is ErrNotRun with
// why. It has no effect where the attempt's own InTx has committed.
func (g *Granted) NotRun(why error) {
	g.setNotRun(notRunBecause(why))
}

func notRunBecause(why error) error {
	if why == nil {
		return ErrNotRun
	}
	return errors.Join(ErrNotRun, why)
}

// ending gives how the attempt ended, and unknown where its function did not say.
func (g *Granted) ending() Ended {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.told != nil {
		return *g.told
	}
	return Ended{As: oncekeeper.SettledUnknown, Status: &oncekeeper.Status{
		Code: int32(codes.Unknown), Message: "the batch's function did not say how the attempt ended",
	}}
}

// BatchResult is what became of one request of a batch: what Run would give for it.
type BatchResult struct {
	Result Result
	Err    error
}

// RunBatch is Run for many requests at once: what is granted is begun by one
// BatchBegin, run by one call of run, and settled by one BatchSettle. It is what
// DoBatch stands on. It gives a result for each request, in order; independent, not
// atomic.
//
// run is called once for each part of up to MaxBatch requests, in the order of reqs,
// with those of it that were granted; not for none. A key that comes again in reqs is
// begun in a later part, when its first was settled: it replays that, or is the next
// attempt. Nothing of a part is begun before the one in front of it is settled.
//
// A batch waits for nobody: Request.Wait counts nothing, and a key that another
// attempt runs is Result.InProgress at once. What does not fit into the answer
// (oncekeeper.ErrAskAlone), or is invalid, is asked for alone, by the rules of Run; where that is
// granted, where a held key is released by its reconciler, and where the service gives
// no verdict and Request.Outage has it run all the same, run is called for that one, after the part.
//
// The context that run gets ends when the contexts of all that it was given have: at
// their maximum run time, counted from the call of run, or when all their leases are
// lost. One lost lease ends Granted.Context of that one: its effect is to be left out,
// or written under its token or receipt, and its neighbours go on. Each lease is renewed
// by itself meanwhile. What ends the caller's context does not end run's; before it is
// called, though, all that was granted is given back, and inside it Granted.NotRun
// gives back what is not to be done any more.
//
// What run panics over, or leaves by runtime.Goexit, is settled as said by then, and
// as unknown where nothing was; no later part is begun. Receipts are looked for before run,
// and closed after it, for each as by Run, up to 16 at once, and so reconcilers are asked.
func (c *Client) RunBatch(ctx context.Context, reqs []Request, run func(ctx context.Context, granted []*Granted)) []BatchResult {
	return newBatchRun(c, slices.Clone(reqs), run).all(ctx)
}

func newBatchRun(c *Client, reqs []Request, run func(ctx context.Context, granted []*Granted)) *batchRun {
	return &batchRun{client: c, reqs: reqs, run: run, receipts: make([]*receipts, len(reqs)), results: make([]BatchResult, len(reqs))}
}

// all does one part after the other. What has its error from the start is not asked
// for.
func (b *batchRun) all(ctx context.Context) []BatchResult {
	left := b.checked(ctx)
	for len(left) > 0 {
		var part []int
		part, left = b.nextPart(left)
		b.do(ctx, part)
	}
	return b.results
}

// batchRun is one RunBatch.
type batchRun struct {
	client   *Client
	reqs     []Request
	run      func(ctx context.Context, granted []*Granted)
	receipts []*receipts
	results  []BatchResult
}

// checked gives the items that can be asked for; the others have their error.
func (b *batchRun) checked(ctx context.Context) []int {
	fine := make([]int, 0, len(b.reqs))
	for i := range b.reqs {
		req, err := &b.reqs[i], b.results[i].Err
		req.Wait = 0
		if err == nil {
			err = refuseNested(ctx, req.Key)
		}
		if err == nil {
			err = req.check()
		}
		if err == nil {
			err = cannotTravel(req.Key, req.FingerprintScheme)
		}
		if err != nil {
			b.results[i].Err = err
			continue
		}
		req.AnswerFirst = false // nor where it is asked for alone: its key may come again
		b.receipts[i] = b.client.receiptsOf(*req)
		fine = append(fine, i)
	}
	return fine
}

// nextPart takes up to MaxBatch items of different keys, and leaves the rest in order.
func (b *batchRun) nextPart(items []int) (part, left []int) {
	keys := make(map[oncekeeper.Key]struct{}, min(len(items), MaxBatch))
	for n, i := range items {
		if len(part) == MaxBatch {
			return part, append(left, items[n:]...)
		}
		key := b.reqs[i].Key
		if _, twice := keys[key]; twice {
			left = append(left, i)
			continue
		}
		keys[key] = struct{}{}
		part = append(part, i)
	}
	return part, left
}

// do begins, runs and settles one part.
func (b *batchRun) do(ctx context.Context, part []int) {
	c := b.client
	asks := make([]BeginRequest, len(part))
	for n, i := range part {
		asks[n] = b.reqs[i].begin()
	}
	begun := c.beginEach(ctx, asks)
	leases := make([]*lease, len(part))
	together(len(part), func(n int) {
		if grant := begun[n].Answer.Grant; grant != nil {
			leases[n], begun[n].Err = b.ready(ctx, part[n], grant)
		}
	})
	b.carry(ctx, part, begun, leases)
	for n, i := range part {
		if leases[n] == nil {
			b.results[i].Result, b.results[i].Err = b.notGranted(ctx, i, begun[n])
		}
	}
}

// ready gives the grant's lease, as Client.ready does. One whose caller has left is
// given back with the others.
func (b *batchRun) ready(ctx context.Context, i int, g *Grant) (*lease, error) {
	if ctx.Err() != nil {
		return newLease(b.client.clock, g), nil
	}
	return b.client.ready(ctx, g, b.reqs[i].Lease)
}

// notGranted answers an item that was granted nothing, by the rules of Run.
func (b *batchRun) notGranted(ctx context.Context, i int, begun BeginResult) (Result, error) {
	c, req := b.client, b.reqs[i]
	switch {
	case isFuller(begun.Err), errors.Is(begun.Err, oncekeeper.ErrAlreadySettled), errors.Is(begun.Err, errAskAgain):
		return c.Run(ctx, req, b.alone(i))
	case begun.Answer.Grant != nil: // and it could not be kept
		return Result{}, begun.Err
	}
	result, err := c.answerUnbegun(ctx, req, b.receipts[i], unbegun{answer: begun.Answer, err: begun.Err}, b.alone(i))
	if errors.Is(err, errBeginAgain) {
		return c.Run(ctx, req, b.alone(i))
	}
	return result, err
}

// alone runs one item by itself.
func (b *batchRun) alone(i int) func(context.Context, *Attempt) Ended {
	return func(ctx context.Context, a *Attempt) Ended {
		g := &Granted{Attempt: a, Item: i, ctx: ctx}
		b.run(ctx, []*Granted{g})
		return g.ending()
	}
}

// maxTogether bounds what a batch asks one by one of the service or of receipts, at
// once.
const maxTogether = 16

// together calls f for 0 to n-1, some at once, and returns when all have. Where one
// panics, that goes on up in the caller's goroutine, when the others have returned.
func together(n int, f func(i int)) {
	var next atomic.Int64
	var panicked atomic.Pointer[any]
	var all sync.WaitGroup
	for range min(n, maxTogether) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				func() {
					defer func() {
						if value := recover(); value != nil {
							panicked.Store(&value)
						}
					}()
					f(int(i))
				}()
			}
		})
	}
	all.Wait()
	if value := panicked.Load(); value != nil {
		panic(*value)
	}
}
