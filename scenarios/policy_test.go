package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/internal/served"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// policyOf is a file whose every grant shows in both values which file it is of.
func policyOf(version int) string {
	return fmt.Sprintf("rules:\n  - name: pay\n    operation: pay\n    lease: %ds\n    max_response_bytes: %d\n", 100+version, 1000+version)
}

// versionOf gives the file that g is of, or what is wrong with it.
func versionOf(g *pb.Grant) (int64, error) {
	version := g.GetMaxResponseBytes() - 1000
	// The lease told is what is left of it.
	if left := g.GetLease().AsDuration(); left > time.Duration(100+version)*time.Second || left <= time.Duration(99+version)*time.Second {
		return 0, fmt.Errorf("a lease of %v beside %d bytes is of two policies", left, g.GetMaxResponseBytes())
	}
	return version, nil
}

// callers begin and complete without a pause, until stop is called.
type callers struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	calls  atomic.Int64
	// newest is the latest file that each caller was granted by.
	newest []atomic.Int64
	// grown is sent to as a caller sees another file.
	grown  chan struct{}
	mu     sync.Mutex
	faults []error
}

func startCallers(t *testing.T, address string, n int) *callers {
	t.Helper()
	conn, err := served.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	c := &callers{cancel: cancel, newest: make([]atomic.Int64, n), grown: make(chan struct{}, 1)}
	for i := range n {
		c.done.Go(func() {
			for id := 0; ctx.Err() == nil; id++ {
				if err := c.pay(pb.NewIdempotencyServiceClient(conn), i, id); err != nil {
					c.mu.Lock()
					c.faults = append(c.faults, err)
					c.mu.Unlock()
					return
				}
			}
		})
	}
	return c
}

func (c *callers) pay(keeper pb.IdempotencyServiceClient, caller, id int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	key := &pb.Key{Tenant: "acme", Operation: "pay", Id: fmt.Sprintf("%d-%d", caller, id)}
	begun, err := keeper.Begin(ctx, &pb.BeginRequest{Key: key})
	if err != nil || begun.GetGrant() == nil {
		return fmt.Errorf("Begin gives %v, %w", begun, err)
	}
	version, err := versionOf(begun.GetGrant())
	if err != nil {
		return err
	}
	// A file that was left comes back to nobody.
	if before := c.newest[caller].Swap(version); version < before {
		return fmt.Errorf("a grant by file %d after one by file %d", version, before)
	} else if version > before {
		select {
		case c.grown <- struct{}{}:
		default:
		}
	}
	_, err = keeper.Complete(ctx, &pb.CompleteRequest{Key: key, FencingToken: begun.GetGrant().GetFencingToken()})
	c.calls.Add(2)
	return err
}

// await returns when every caller was granted by a file as new as version.
func (c *callers) await(t *testing.T, version int64) {
	t.Helper()
	late := time.After(time.Minute)
	for i := range c.newest {
		for c.newest[i].Load() < version {
			select {
			case <-c.grown:
			case <-late:
				t.Fatalf("a minute after file %d a caller is granted by %d; faults: %v", version, c.newest[i].Load(), c.stop())
			}
		}
	}
}

// stop ends the callers, and gives what failed.
func (c *callers) stop() error {
	c.cancel()
	c.done.Wait()
	return errors.Join(c.faults...)
}

// TestAPolicyChangeTakesHoldAndDropsNoCall changes the file of a running server, in
// the ways that files are changed, while callers go on.
func TestAPolicyChangeTakesHoldAndDropsNoCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(at, text string) {
		t.Helper()
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, policyOf(1))
	address := served.FreeAddress(t)
	server := served.Start(t, "memory:", address, "--policy", path)
	callers := startCallers(t, address, 8)
	callers.await(t, 1)

	write(path, policyOf(2))
	callers.await(t, 2)

	write(path, policyOf(3))
	server.Hangup(t)
	callers.await(t, 3)

	bad := policyOf(4) + "    leese: 1s\n"
	write(path, bad)
	server.Await(t, path+`:6: \"leese\" is not known in a rule`, 1)
	server.Hangup(t)
	server.Await(t, path+`:6: \"leese\" is not known in a rule`, 2)

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	server.Hangup(t)
	server.Await(t, "no such file or directory", 1)

	write(path+"~", policyOf(5))
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
	callers.await(t, 5)

	if err := callers.stop(); err != nil {
		t.Errorf("of %d calls some failed: %v", callers.calls.Load(), err)
	}
	for i := range callers.newest {
		if got := callers.newest[i].Load(); got != 5 {
			t.Errorf("caller %d ends with file %d, want 5", i, got)
		}
	}
	server.Stop(t)
	t.Logf("%d calls while the file changed five times", callers.calls.Load())
}
