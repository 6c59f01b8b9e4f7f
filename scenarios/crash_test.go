package scenarios

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/internal/served"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// crashLease is long against a restart, so that a lease lost in one shows, and
// short against the test, so that abandoned keys are taken over within it.
const crashLease = 1500 * time.Millisecond

// TestKill9AtRandomMomentsLosesNothingAcknowledged kills serve a hundred times
// under load, and holds what it answered against what it answers later.
func TestKill9AtRandomMomentsLosesNothingAcknowledged(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	address, dir := served.FreeAddress(t), t.TempDir()
	conn, err := served.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()

	server := served.Start(t, "pebble:"+dir, address)
	keeper := pb.NewIdempotencyServiceClient(conn)
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld("crash", crashLease, cancel)
	var workers sync.WaitGroup
	for i := range 16 {
		workers.Go(func() { crashWork(ctx, w, keeper, rand.New(rand.NewPCG(seed, uint64(i+1)))) })
	}
	for range 100 {
		time.Sleep(time.Duration(20+random.IntN(180)) * time.Millisecond)
		server.Kill(t)
		server = served.Start(t, "pebble:"+dir, address)
	}
	cancel()
	workers.Wait()
	w.check(t, keeper)
	if c := w.counts; c.completions < 100 || c.grants < 100 || c.unknown == 0 {
		t.Errorf("too little happened to show anything: %+v", c)
	}
	server.Stop(t)
}

func crashWork(ctx context.Context, w *world, keeper pb.IdempotencyServiceClient, random *rand.Rand) {
	for ctx.Err() == nil {
		// Few keys at a time, so that workers meet; ever new ones, so that there is
		// something to complete.
		id := fmt.Sprintf("%d-%d", time.Now().UnixMilli()/250, random.IntN(24))
		var wait time.Duration
		if random.IntN(2) == 0 {
			wait = 200 * time.Millisecond
		}
		res, err := w.begin(ctx, keeper, id, fmt.Sprintf("%016x", random.Uint64()), wait)
		token := res.GetGrant().GetFencingToken()
		if err != nil || token == 0 {
			continue
		}
		switch random.IntN(4) {
		case 0: // dies with its lease
		case 1:
			_ = w.fail(ctx, keeper, id, token, pb.FailRequest_DISPOSITION_RETRYABLE)
		default:
			_ = w.complete(ctx, keeper, id, token)
		}
	}
}
