package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/oncekeeper/oncekeeper/clock"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

const (
	retention = 24 * time.Hour
	grace     = 20 * time.Minute
)

func (h *operated) sweep(t *testing.T, req *pb.SweepRequest) *pb.SweepResponse {
	t.Helper()
	res, err := h.Sweep(testContext(t), req)
	if err != nil {
		t.Fatalf("Sweep: %v", err)
	}
	return res
}

func TestASweepTakesWhatIsGoneForLongerThanItsGraceAndNothingElse(t *testing.T) {
	onStores(t, func(t *testing.T, h *operated) {
		for state, make := range begun {
			make(t, h, state.String())
		}
		h.advance(retention + grace - time.Second)
		if res := h.sweep(t, &pb.SweepRequest{}); res.GetSwept() != 0 || res.GetMore() {
			t.Errorf("within the grace it sweeps %v", res)
		}
		h.advance(time.Second)
		for _, c := range []struct {
			req   *pb.SweepRequest
			swept int64
			more  bool
		}{
			{&pb.SweepRequest{DryRun: true}, 3, false},
			{&pb.SweepRequest{DryRun: true, MaxRecords: 2}, 2, true},
			{&pb.SweepRequest{MaxRecords: 2}, 2, true},
			{&pb.SweepRequest{DryRun: true}, 1, false},
			{&pb.SweepRequest{}, 1, false},
			{&pb.SweepRequest{}, 0, false},
		} {
			if res := h.sweep(t, c.req); res.GetSwept() != c.swept || res.GetMore() != c.more {
				t.Errorf("%v gives %v, want %d, more %v", c.req, res, c.swept, c.more)
			}
		}
		for _, state := range []pb.KeyRecord_State{pb.KeyRecord_STATE_ABANDONED, pb.KeyRecord_STATE_UNRESOLVED} {
			if got := h.look(t, state.String()).GetState(); got != state {
				t.Errorf("after the sweep %v is %v", state, got)
			}
		}
		if text := h.log.String(); !strings.Contains(text, "an operator swept") || strings.Count(text, "an operator swept") != 4 {
			t.Errorf("four sweeps, and three dry runs, left a log of\n%s", text)
		}
	})
}

// slow is a store whose sweeps end with their context, five records later.
type slow struct{ storage.Store }

func (slow) Sweep(ctx context.Context, _ storage.SweepQuery) (storage.Swept, error) {
	<-ctx.Done()
	return storage.Swept{Records: 5}, context.Cause(ctx)
}

func TestADeadlineInTheMiddleGivesWhatWasSwept(t *testing.T) {
	h := operate(t, onPebble(t), func(cfg *server.Config) { cfg.Store = slow{cfg.Store} })
	ctx, cancel := context.WithTimeout(testContext(t), 3*time.Second)
	defer cancel()
	res, err := h.Sweep(ctx, &pb.SweepRequest{})
	if err != nil || res.GetSwept() != 5 || !res.GetMore() {
		t.Errorf("got %v, %v; want 5 swept, and more", res, err)
	}
}

// onDirectory is the embedded store on a directory: each server that is started on
// it is a restart, behind the end of the last.
func onDirectory(t *testing.T) records {
	clk, dir := clock.NewManual(epoch), t.TempDir()
	var last storage.Store
	return records{
		advance: clk.Advance,
		open: func(t testing.TB) storage.Store {
			if last != nil {
				if err := last.Close(); err != nil {
					t.Fatal(err)
				}
			}
			store, err := pebble.Open(pebble.Config{Dir: dir, Clock: clk})
			last = opened(t, store, err)
			return last
		},
	}
}

func TestAfterADeletionTheOldHolderIsFencedAcrossASweepAndARestart(t *testing.T) {
	test := func(t *testing.T, on records) {
		h := operate(t, on, nil)
		old := h.grant(t, begin("1", "")).GetFencingToken()
		if _, err := h.DeleteRecord(testContext(t), deleted("1", h.look(t, "1").GetEtag(), true)); err != nil {
			t.Fatal(err)
		}
		late := func(h *operated, want string, code codes.Code) {
			t.Helper()
			_, err := h.Complete(testContext(t), &pb.CompleteRequest{Key: key("1"), FencingToken: old})
			wantReason(t, err, code, want)
			_, err = h.Renew(testContext(t), &pb.RenewRequest{Key: key("1"), FencingToken: old})
			wantReason(t, err, code, want)
		}
		late(h, "FENCED", codes.FailedPrecondition)

		h.advance(retention + grace)
		if res := h.sweep(t, &pb.SweepRequest{}); res.GetSwept() != 1 {
			t.Fatalf("the sweep gives %v, want the deleted record", res)
		}
		late(h, "KEY_NOT_FOUND", codes.NotFound)

		h = operate(t, on, nil)
		late(h, "KEY_NOT_FOUND", codes.NotFound)
		next := begin("1", "")
		next.Fingerprint = []byte("another")
		if g := h.grant(t, next); g.GetFencingToken() <= old || g.GetAttemptNumber() != 1 || g.GetTakeover() {
			t.Errorf("the next life begins with %v, want attempt 1 and a token above %d", g, old)
		}
		late(h, "FENCED", codes.FailedPrecondition)
	}
	onEach(t, test, kind{"pebble", onDirectory}, kind{"postgres", onPostgres})
}
