// Package drive has concurrent callers make random calls on a few keys at a time, and
// records what they asked and were answered. What they ask follows from a seed and
// from what was answered; how their calls interleave is the machine's affair.
//
// It speaks the wire as any caller does, and knows no store, no rule and no fault.
package drive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/proof/internal/history"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// Config is how a run is driven.
type Config struct {
	Seed uint64
	// Tenant of the keys: each run has its own.
	Tenant string
	// Operations is how many operations are made at the least; while Busy says so, more.
	Operations int
	Busy       func() bool
	// Clients call at once.
	Clients int
	// Keys are in use at a time, and each is left for a new one after some PerKey
	// operations.
	Keys, PerKey int
	// Conns lead to the servers.
	Conns []grpc.ClientConnInterface
	// Bounds gives what the store's clock may have been between two moments of the
	// host's.
	Bounds func(from, to time.Time) (earliest, latest oncekeeper.Instant)
	// Patience is how long no server may answer.
	Patience time.Duration
}

// Run is one run.
type Run struct {
	cfg     Config
	origin  time.Time
	servers []server
	made    atomic.Int64
	stuck   atomic.Bool

	mu     sync.Mutex
	random *rand.Rand // of keys
	keys   []*key
	spent  int // how often keys were left early
	lost   map[string]int
	ops    []*history.Operation
	// sent is when the last try of an operation that was lost left its caller.
	sent map[*history.Operation]int64
	bad  []string
}

type server struct {
	keeper pb.IdempotencyServiceClient
	admin  pb.AdminServiceClient
}

// New prepares a run.
func New(cfg Config) *Run {
	r := &Run{cfg: cfg, origin: time.Now(), random: rand.New(rand.NewPCG(cfg.Seed, 0)), sent: map[*history.Operation]int64{}, lost: map[string]int{}}
	for _, conn := range cfg.Conns {
		r.servers = append(r.servers, server{pb.NewIdempotencyServiceClient(conn), pb.NewAdminServiceClient(conn)})
	}
	return r
}

// Now is the clock of the history.
func (r *Run) Now() int64 { return int64(time.Since(r.origin)) }

// Made gives how many operations were answered or lost so far.
func (r *Run) Made() int { return int(r.made.Load()) }

// thinking is how long a caller rests between two calls, on average: so short leases
// run out, and what befalls the servers is met by few thousand operations.
const thinking = 3 * time.Millisecond

// Drive makes the calls, and returns when all are made.
func (r *Run) Drive(ctx context.Context) {
	var all sync.WaitGroup
	for i := range r.cfg.Clients {
		all.Go(func() {
			c := &client{run: r, id: i, random: rand.New(rand.NewPCG(r.cfg.Seed, uint64(i+1)))}
			for (r.Made() < r.cfg.Operations || r.cfg.Busy()) && ctx.Err() == nil && !r.stuck.Load() {
				c.act(ctx)
				time.Sleep(time.Duration(c.random.Int64N(int64(2 * thinking))))
			}
		})
	}
	all.Wait()
}

// Finish looks at every key once more, when all faults are over, and gives what was
// done. killed gives when the server that an operation was sent to was first known to
// be gone after a moment, where nothing of an operation can outlive its server.
func (r *Run) Finish(ctx context.Context, killed func(server int, after time.Time) (time.Time, bool)) (*history.History, error) {
	last := &client{run: r, id: r.cfg.Clients, random: rand.New(rand.NewPCG(r.cfg.Seed, 1<<32))}
	for _, k := range r.keys {
		if k.used() {
			last.lastLook(ctx, k)
		}
	}
	if r.stuck.Load() {
		return nil, fmt.Errorf("no server answered for %v", r.cfg.Patience)
	}
	if len(r.bad) > 0 {
		return nil, errors.New("an answer is none that a server may give: " + r.bad[0])
	}
	ended := time.Now()
	for i, o := range r.ops {
		o.ID = i
		if o.Answer != nil {
			continue
		}
		end, gone := killed(o.Server, r.origin.Add(time.Duration(r.sent[o])))
		if o.Return = int64(end.Sub(r.origin)); !gone {
			end, o.Return = ended, history.Open
		}
		_, o.Latest = r.cfg.Bounds(r.origin, end)
	}
	return &history.History{Seed: r.cfg.Seed, Operations: r.ops, Began: r.origin, Ended: time.Now()}, nil
}

// current gives the keys in use now. One with many operations that were lost is left
// with those beside it: each may have taken effect at any time since, and the orders
// to search multiply.
func (r *Run) current() []*key {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		from := (r.Made()/(r.cfg.Keys*r.cfg.PerKey) + r.spent) * r.cfg.Keys
		for len(r.keys) < from+r.cfg.Keys {
			r.keys = append(r.keys, newKey(r.cfg.Tenant, len(r.keys), r.random))
		}
		now := r.keys[from : from+r.cfg.Keys]
		if !slices.ContainsFunc(now, func(k *key) bool { return r.lost[k.key.ID] >= mostLost }) {
			return now
		}
		r.spent++
	}
}

// mostLost is how many lost operations end the use of a key.
const mostLost = 8

// keep records an operation that is over.
func (r *Run) keep(o *history.Operation, sent int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, o)
	if o.Answer == nil {
		r.sent[o] = sent
		if o.Command() != nil {
			r.lost[o.Key]++
		}
	}
	r.made.Add(1)
}

func (r *Run) refuse(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad = append(r.bad, what)
}
