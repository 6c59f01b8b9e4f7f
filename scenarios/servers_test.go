package scenarios

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper/internal/served"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

const (
	sharedKeys    = 500
	callersPerKey = 200
	// keysAtOnce bounds the callers that are there at one time.
	keysAtOnce = 24
	// sharedLease is long against a call on a busy machine: only holders that died
	// lose it.
	sharedLease = 10 * time.Second
	// sharedWait spares the callers of a dead holder's key most of their asking.
	sharedWait = 5 * time.Second
	// patience is how long may pass from one key's last answer to the next one's.
	patience = 2 * time.Minute
)

// TestThreeServersOnOneDatabaseKilledAtRandomMomentsGrantOnce lets 200 callers
// race for each of 500 keys, at whichever of three servers answers, while these are
// killed and started again; every caller goes on until it has the answer.
func TestThreeServersOnOneDatabaseKilledAtRandomMomentsGrantOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	database := pgtest.Database(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var stuck atomic.Bool
	watchdog := time.AfterFunc(patience, func() {
		stuck.Store(true)
		stop()
	})
	defer watchdog.Stop()
	c := &cluster{world: newWorld("shared", sharedLease, stop), dead: map[string][]int64{}}
	var servers [3]*served.Process
	var addresses [3]string
	for i := range servers {
		addresses[i] = served.FreeAddress(t)
		conn, err := served.Dial(addresses[i])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		c.keepers = append(c.keepers, pb.NewIdempotencyServiceClient(conn))
		servers[i] = served.Start(t, database, addresses[i])
	}

	over := make(chan struct{})
	go func() {
		defer close(over)
		c.raceAll(ctx, seed, func() { watchdog.Reset(patience) })
	}()
	kills := 0
	for racing := true; racing; {
		select {
		case <-over:
			racing = false
		case <-time.After(time.Duration(500+random.IntN(1000)) * time.Millisecond):
			i := random.IntN(len(servers))
			servers[i].Kill(t)
			servers[i] = served.Start(t, database, addresses[i])
			kills++
		}
	}
	c.check(t, c.keepers...)
	for id, l := range c.keys {
		if l.completed == "" && !t.Failed() {
			t.Errorf("key %s was never completed: granted as %v, and its record is %v", id, l.grants, c.read(t, c.keepers[0], id, l))
		}
	}
	if stuck.Load() {
		t.Errorf("in %v no key had all its callers answered", patience)
	}
	if t.Failed() {
		return
	}
	if n := c.counts; kills < 5 || n.takeovers < 10 || n.fenced < 10 || n.replays < sharedKeys*callersPerKey*9/10 {
		t.Errorf("too little happened to show anything: %d kills, %+v", kills, n)
	}
	for _, s := range servers {
		s.Stop(t)
	}
}

// cluster is a world that several servers serve.
type cluster struct {
	*world
	keepers []pb.IdempotencyServiceClient
	// dead are the tokens of attempts that were given up without a word.
	dead map[string][]int64
}

// raceAll returns when every caller of every key has its answer, or ctx ends. It
// tells of each key that is done.
func (c *cluster) raceAll(ctx context.Context, seed uint64, done func()) {
	slots := make(chan struct{}, keysAtOnce)
	var all sync.WaitGroup
	for k := range sharedKeys {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			var callers sync.WaitGroup
			for i := range callersPerKey {
				callers.Go(func() {
					one := caller{c, fmt.Sprint(k), rand.New(rand.NewPCG(seed, uint64(1+k*callersPerKey+i)))}
					one.untilAnswered(ctx)
				})
			}
			callers.Wait()
			if ctx.Err() == nil {
				done()
			}
		})
	}
	all.Wait()
}

type caller struct {
	*cluster
	id     string
	random *rand.Rand
}

// untilAnswered begins, and does what a grant asks for, until there is an outcome.
func (c caller) untilAnswered(ctx context.Context) {
	for ctx.Err() == nil {
		call := fmt.Sprintf("%016x", c.random.Uint64())
		var res *pb.BeginResponse
		c.untilTold(ctx, func(keeper pb.IdempotencyServiceClient) (err error) {
			res, err = c.begin(ctx, keeper, c.id, call, sharedWait)
			return err
		})
		if res.GetOutcome() != nil {
			return
		}
		if g := res.GetGrant(); g != nil {
			c.hold(ctx, g)
		}
	}
}

// untilTold makes one call, again and at another server each time, until it is
// known what became of it.
func (c caller) untilTold(ctx context.Context, call func(pb.IdempotencyServiceClient) error) {
	for ctx.Err() == nil {
		switch status.Code(call(c.keepers[c.random.IntN(len(c.keepers))])) {
		case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Canceled:
			time.Sleep(time.Duration(1+c.random.IntN(20)) * time.Millisecond)
		default:
			return
		}
	}
}

// hold is what a holder does: most complete, some fail, some die without a word.
// One that took over first has those who died come back.
func (c caller) hold(ctx context.Context, g *pb.Grant) {
	token := g.GetFencingToken()
	c.mu.Lock()
	dead := c.dead[c.id]
	c.mu.Unlock()
	for _, old := range dead {
		c.untilTold(ctx, func(keeper pb.IdempotencyServiceClient) error {
			err := c.complete(ctx, keeper, c.id, old)
			if status.Code(err) == codes.FailedPrecondition {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.counts.fenced++
			}
			return err
		})
	}
	settle := func(keeper pb.IdempotencyServiceClient) error { return c.complete(ctx, keeper, c.id, token) }
	switch c.random.IntN(20) {
	case 0:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.dead[c.id] = append(c.dead[c.id], token)
		return
	case 1, 2:
		settle = func(keeper pb.IdempotencyServiceClient) error {
			return c.fail(ctx, keeper, c.id, token, pb.FailRequest_DISPOSITION_RETRYABLE)
		}
	case 3, 4:
		settle = func(keeper pb.IdempotencyServiceClient) error {
			return c.fail(ctx, keeper, c.id, token, pb.FailRequest_DISPOSITION_UNKNOWN)
		}
	}
	c.untilTold(ctx, settle)
}
