package sweeping

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/inprocess"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
)

// BenchmarkUnderLoad sweeps, as serve does where nothing is set, while callers begin
// and complete keys through the service. Slices with and without a sweeper take turns
// until nothing is left, so that what else the machine does meets both. It fails
// where Begin's p99 is more than twice what it is without.
//
//	ONCEKEEPER_SWEEP_RECORDS  how many have expired (100,000)
//	ONCEKEEPER_SWEEP_CALLERS  how many call at once (32)
//	ONCEKEEPER_SWEEP_RATE     --sweep-rate (10,000)
//	ONCEKEEPER_SWEEP_BATCH    --sweep-batch (1,000)
func BenchmarkUnderLoad(b *testing.B) {
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			n := setting("ONCEKEEPER_SWEEP_RECORDS", 100_000)
			for b.Loop() {
				underLoad(b, k.lay(b, n), n)
			}
		})
	}
}

func setting(name string, otherwise int) int {
	n, _ := strconv.Atoi(os.Getenv(name))
	return cmp.Or(n, otherwise)
}

const (
	slice = 4 * time.Second
	// settling is left out at the start of a slice.
	settling = 300 * time.Millisecond
)

func underLoad(b *testing.B, on records, n int) {
	store, swept := on.open(), new(atomic.Int64)
	defer func() { mustClose(b, store) }()
	before := on.bytes()
	load := begun(b, counted{Store: store, swept: swept}, setting("ONCEKEEPER_SWEEP_CALLERS", 32))
	var sweptFor time.Duration
	for swept.Load() < int64(n) {
		load.phase(without, slice)
		stop := sweeping(b, counted{Store: store, swept: swept}, server.Sweeping{
			Rate: setting("ONCEKEEPER_SWEEP_RATE", 0), Batch: setting("ONCEKEEPER_SWEEP_BATCH", 0),
		})
		start := time.Now()
		load.phase(with, slice)
		stop()
		sweptFor += time.Since(start)
	}
	took := load.end(b)
	behind := on.bytes()
	if got := swept.Load(); got != int64(n) {
		b.Errorf("%d were swept of %d", got, n)
	}
	ratio := float64(at(took[with], 0.99)) / float64(at(took[without], 0.99))
	b.Logf("Begin without a sweep: p50 %v, p99 %v (of %d)", at(took[without], 0.5), at(took[without], 0.99), len(took[without]))
	b.Logf("Begin with a sweep:    p50 %v, p99 %v (of %d)", at(took[with], 0.5), at(took[with], 0.99), len(took[with]))
	b.Logf("disk, MiB: %d before; %d behind the sweep, with %d new records; %s", before>>20, behind>>20, load.made.Load(), on.sizes())
	b.ReportMetric(ratio, "p99-ratio")
	b.ReportMetric(float64(n)/sweptFor.Seconds(), "records/s")
	if ratio > 2 {
		b.Errorf("Begin's p99 is %.2f times what it is without a sweep, and may be twice", ratio)
	}
}

// The phases of a load; what is measured in none is dropped.
const (
	none = iota
	without
	with
	phases
)

// load is callers that begin and complete keys, one after the other.
type load struct {
	keeper *inprocess.Keeper
	now    atomic.Int32
	made   atomic.Int64
	ended  atomic.Bool
	all    sync.WaitGroup
	mu     sync.Mutex
	took   [phases][]time.Duration
}

func begun(b testing.TB, store counted, callers int) *load {
	b.Helper()
	keeper, err := inprocess.Open(inprocess.Config{Store: store})
	if err != nil {
		b.Fatal(err)
	}
	l := &load{keeper: keeper}
	for range callers {
		conn, err := keeper.Dial()
		if err != nil {
			b.Fatal(err)
		}
		l.all.Go(func() {
			defer func() { _ = conn.Close() }()
			if err := l.calls(pb.NewIdempotencyServiceClient(conn)); err != nil {
				b.Error(err)
			}
		})
	}
	return l
}

func (l *load) calls(service pb.IdempotencyServiceClient) error {
	var took [phases][]time.Duration
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range took {
			l.took[i] = append(l.took[i], took[i]...)
		}
	}()
	body := body()
	for !l.ended.Load() {
		key := &pb.Key{Tenant: "shop", Operation: "ship", Id: idOf(int(l.made.Add(1)))}
		phase, start := l.now.Load(), time.Now()
		res, err := service.Begin(context.Background(), &pb.BeginRequest{Key: key})
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		if lasted := time.Since(start); phase == l.now.Load() {
			took[phase] = append(took[phase], lasted)
		}
		_, err = service.Complete(context.Background(), &pb.CompleteRequest{
			Key: key, FencingToken: res.GetGrant().GetFencingToken(), Response: &pb.StoredResponse{Body: body},
		})
		if err != nil {
			return fmt.Errorf("complete: %w", err)
		}
	}
	return nil
}

// phase measures for a while.
func (l *load) phase(phase int32, lasts time.Duration) {
	time.Sleep(settling)
	l.now.Store(phase)
	time.Sleep(lasts)
	l.now.Store(none)
}

func (l *load) end(b testing.TB) [phases][]time.Duration {
	l.ended.Store(true)
	l.all.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.keeper.Close(ctx); err != nil {
		b.Error(err)
	}
	return l.took
}

func at(took []time.Duration, share float64) time.Duration {
	slices.Sort(took)
	if len(took) == 0 {
		return 0
	}
	return took[min(len(took)-1, int(share*float64(len(took))))].Round(10 * time.Microsecond)
}
