package abuse

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/internal/served"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// others are callers who mean well. Each begins a key, completes it, and asks for its
// answer; how long each call took is kept by whether there is an attack.
type others struct {
	cancel   context.CancelFunc
	running  sync.WaitGroup
	attacked atomic.Bool
	rounds   atomic.Int64

	mu    sync.Mutex
	took  [2][]time.Duration // quiet, attacked
	wrong []error
}

func startOthers(t testing.TB, address string) *others {
	t.Helper()
	conn, err := served.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o := &others{cancel: cancel}
	for i := range 8 {
		o.running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := o.round(pb.NewIdempotencyServiceClient(conn), fmt.Sprint(i, "-", n)); err != nil {
					o.mu.Lock()
					o.wrong = append(o.wrong, err)
					o.mu.Unlock()
					return
				}
				o.rounds.Add(1)
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond): // a load that leaves the machine room
				}
			}
		})
	}
	t.Cleanup(func() { o.stop(); _ = conn.Close() })
	return o
}

func (o *others) stop() {
	o.cancel()
	o.running.Wait()
}

// awaitRounds returns when so many more were made.
func (o *others) awaitRounds(t testing.TB, n int64) {
	t.Helper()
	late := time.Now().Add(2 * time.Minute)
	for want := o.rounds.Load() + n; o.rounds.Load() < want; time.Sleep(10 * time.Millisecond) {
		if err := o.faults(); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(late) {
			t.Fatal("the others do not get on: for two minutes they are not answered")
		}
	}
}

func (o *others) faults() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d callers were answered wrong, the first: %w", len(o.wrong), o.wrong[0])
}

func (o *others) round(keeper pb.IdempotencyServiceClient, id string) error {
	key, body := &pb.Key{Tenant: "acme", Operation: "pay", Id: id}, []byte("paid "+id)
	res, err := timed(o, func(ctx context.Context) (*pb.BeginResponse, error) {
		return keeper.Begin(ctx, &pb.BeginRequest{Key: key, CallId: id})
	})
	if err != nil || res.GetGrant().GetAttemptNumber() != 1 {
		return fmt.Errorf("Begin of %s: %v, %w", id, res, err)
	}
	_, err = timed(o, func(ctx context.Context) (*pb.CompleteResponse, error) {
		return keeper.Complete(ctx, &pb.CompleteRequest{Key: key, FencingToken: res.GetGrant().GetFencingToken(), Response: &pb.StoredResponse{Body: body}})
	})
	if err != nil {
		return fmt.Errorf("Complete of %s: %w", id, err)
	}
	res, err = timed(o, func(ctx context.Context) (*pb.BeginResponse, error) {
		return keeper.Begin(ctx, &pb.BeginRequest{Key: key, CallId: id + "again"})
	})
	if err != nil || !bytes.Equal(res.GetOutcome().GetResponse().GetBody(), body) {
		return fmt.Errorf("the answer of %s: %v, %w", id, res, err)
	}
	return nil
}

func timed[R any](o *others, call func(context.Context) (R, error)) (R, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	start := time.Now()
	res, err := call(ctx)
	took, at := time.Since(start), 0
	if o.attacked.Load() {
		at = 1
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.took[at] = append(o.took[at], took)
	return res, err
}

// p99 of the calls in quiet and under attack, which are forgotten.
func (o *others) p99() (quiet, attacked time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := func(all []time.Duration) time.Duration {
		if len(all) == 0 {
			return 0
		}
		slices.Sort(all)
		return all[len(all)*99/100]
	}
	quiet, attacked = of(o.took[0]), of(o.took[1])
	o.took = [2][]time.Duration{}
	return quiet, attacked
}

// resident gives a process's memory in bytes and its open files.
func resident(t testing.TB, pid int) (memory, files int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rss, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rss + " 0")[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10, int64(len(open))
}
