package client_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// fakeLease is what the fake's policy gives, whatever is asked for.
const fakeLease = 30 * time.Second

// fake is the service in memory: the real rules over a map, on a clock that the
// test moves.
type fake struct {
	pb.UnimplementedIdempotencyServiceServer
	clock *testClock

	// gate, where set, is passed before each call is applied.
	gate func(ctx context.Context, method string)

	mu            sync.Mutex
	records       map[oncekeeper.Key]*oncekeeper.KeyRecord
	changed       chan struct{}
	calls         []string
	begins        []*pb.BeginRequest
	held          int
	heldChanged   chan struct{}
	mostHeld      int
	maxBytes      int64
	attempts      int32
	renewNothing  bool
	hideLimit     bool
	declineToHold bool
	// batchAnswers, where set, is the largest answer that a batch gives.
	batchAnswers int
	// refuseItem, where set, gives what an item of a batch is told once it is applied.
	refuseItem func(key oncekeeper.Key) error
	// answer, where set, is what every Begin gets.
	answer *pb.BeginResponse
	// fails are the retentions that failures were settled with.
	fails []time.Duration
}

func (f *fake) now() oncekeeper.Instant { return oncekeeper.InstantOf(f.clock.Now()) }

// enter notes a call and passes the gate.
func (f *fake) enter(ctx context.Context, method string) {
	f.mu.Lock()
	f.calls = append(f.calls, method)
	gate := f.gate
	f.mu.Unlock()
	if gate != nil {
		gate(ctx, method)
	}
}

func (f *fake) seen(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, call := range f.calls {
		if call == method {
			n++
		}
	}
	return n
}

func (f *fake) record(key oncekeeper.Key) *oncekeeper.KeyRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.records[key]
}

func (f *fake) apply(cmd lifecycle.Command) (*oncekeeper.KeyRecord, lifecycle.Verdict, oncekeeper.Instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	rec, verdict := lifecycle.Apply(f.records[cmd.Target()], cmd, now)
	if rec != f.records[cmd.Target()] {
		f.records[cmd.Target()] = rec
		close(f.changed)
		f.changed = make(chan struct{})
	}
	return rec, verdict, now
}

func refuse(ctx context.Context, sentinel error, operation string) error {
	s, _ := oncekeeper.SentinelOf(sentinel)
	_ = grpc.SetTrailer(ctx, metadata.Pairs(wire.ReasonTrailer, s.Reason()))
	return wire.Status(s, operation, wire.Details{}).Err()
}

func (f *fake) Begin(ctx context.Context, req *pb.BeginRequest) (*pb.BeginResponse, error) {
	f.mu.Lock()
	f.begins = append(f.begins, req)
	f.mu.Unlock()
	f.enter(ctx, "Begin")
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if f.answer != nil {
		return f.answer, nil
	}
	asked := f.clock.Monotonic()
	for {
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		resp, err := f.beginOnce(ctx, req, asked)
		left := req.GetWait().AsDuration() - (f.clock.Monotonic() - asked)
		if resp.GetInProgress() == nil || left <= 0 || f.declineToHold {
			return resp, err
		}
		f.hold(ctx, changed, left)
		if ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
}

func (f *fake) hold(ctx context.Context, changed <-chan struct{}, left time.Duration) {
	ctx, cancel := clock.WithTimeout(ctx, f.clock, left, nil)
	defer cancel()
	f.setHeld(1)
	defer f.setHeld(-1)
	select {
	case <-changed:
	case <-ctx.Done():
	}
}

func (f *fake) setHeld(by int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held += by
	f.mostHeld = max(f.mostHeld, f.held)
	close(f.heldChanged)
	f.heldChanged = make(chan struct{})
}

// awaitHeld waits until n calls are held, and each waits on the clock.
func (f *fake) awaitHeld(t *testing.T, n int) {
	t.Helper()
	for {
		f.mu.Lock()
		held, changed := f.held, f.heldChanged
		f.mu.Unlock()
		if held == n {
			return
		}
		select {
		case <-changed:
		case <-time.After(hang):
			t.Fatalf("%d calls are held, want %d", held, n)
		}
	}
}

func (f *fake) beginOnce(ctx context.Context, req *pb.BeginRequest, asked time.Duration) (*pb.BeginResponse, error) {
	hold, _ := wire.HoldFromProto(req.GetOnLeaseExpiry())
	key := wire.KeyFromProto(req.GetKey())
	if req.GetMaxAttempts() < 0 {
		s, _ := oncekeeper.SentinelOf(oncekeeper.ErrInvalidRequest)
		return nil, wire.Status(s, key.Operation, wire.Details{Violations: []wire.FieldViolation{{Field: "max_attempts", Description: "is below zero"}}}).Err()
	}
	lease := fakeLease
	if req.Lease != nil {
		lease = req.GetLease().AsDuration()
	}
	waited := f.clock.Monotonic() - asked
	rec, verdict, now := f.apply(lifecycle.Begin{
		Key: key, Fingerprint: req.GetFingerprint(), FingerprintScheme: req.GetFingerprintScheme(),
		CallID: req.GetCallId(), Holder: req.GetHolder(), TraceParent: req.GetTraceParent(),
		Grant: oncekeeper.Grant{
			Lease: lease, Retention: 24 * time.Hour, UnsettledRetention: 720 * time.Hour,
			MaxAttempts: max(f.attempts, req.GetMaxAttempts()), Hold: hold,
		},
	})
	told := f.maxBytes
	if f.hideLimit {
		told = 0
	}
	switch verdict {
	case lifecycle.Granted:
		return &pb.BeginResponse{Result: &pb.BeginResponse_Grant{Grant: &pb.Grant{
			FencingToken: rec.Token, AttemptNumber: rec.Attempt, Takeover: rec.Takeover, Checkpoint: rec.Checkpoint,
			Lease: wire.DurationToProto(rec.LeaseEnd.Sub(now)), Waited: wire.DurationToProto(waited),
			LeaseExpireTime: wire.InstantToProto(rec.LeaseEnd), MaxResponseBytes: told,
		}}}, nil
	case lifecycle.Replayed:
		return &pb.BeginResponse{Result: &pb.BeginResponse_Outcome{Outcome: wire.OutcomeToProto(rec.Outcome())}}, nil
	case lifecycle.InProgress:
		return &pb.BeginResponse{Result: &pb.BeginResponse_InProgress{InProgress: &pb.InProgress{
			RetryDelay: wire.DurationToProto(time.Second), AttemptNumber: rec.Attempt,
		}}}, nil
	case lifecycle.Unresolved:
		return &pb.BeginResponse{Result: &pb.BeginResponse_Unresolved{Unresolved: &pb.Unresolved{
			FencingToken: rec.Token, AttemptNumber: rec.Attempt, Checkpoint: rec.Checkpoint,
		}}}, nil
	default:
		return nil, refuse(ctx, verdict.Err(), key.Operation)
	}
}

func (f *fake) Renew(ctx context.Context, req *pb.RenewRequest) (*pb.RenewResponse, error) {
	f.enter(ctx, "Renew")
	key := wire.KeyFromProto(req.GetKey())
	rec, verdict, now := f.apply(lifecycle.Renew{
		Key: key, Token: req.GetFencingToken(), Lease: req.GetLease().AsDuration(), Checkpoint: req.Checkpoint,
	})
	if err := verdict.Err(); err != nil {
		return nil, refuse(ctx, err, key.Operation)
	}
	if f.renewNothing {
		return &pb.RenewResponse{}, nil
	}
	return &pb.RenewResponse{Lease: wire.DurationToProto(rec.LeaseEnd.Sub(now))}, nil
}

func (f *fake) Complete(ctx context.Context, req *pb.CompleteRequest) (*pb.CompleteResponse, error) {
	f.enter(ctx, "Complete")
	if int64(len(req.GetResponse().GetBody())) > f.maxBytes {
		return nil, refuse(ctx, oncekeeper.ErrInvalidRequest, req.GetKey().GetOperation())
	}
	rec, err := f.settle(ctx, lifecycle.Settle{
		Key: wire.KeyFromProto(req.GetKey()), Token: req.GetFencingToken(),
		As: oncekeeper.SettledComplete, Response: wire.ResponseFromProto(req.GetResponse()),
	})
	if err != nil {
		return nil, err
	}
	return &pb.CompleteResponse{ExpireTime: wire.InstantToProto(rec.Expires)}, nil
}

func (f *fake) Fail(ctx context.Context, req *pb.FailRequest) (*pb.FailResponse, error) {
	f.enter(ctx, "Fail")
	as, ok := wire.DispositionFromProto(req.GetDisposition())
	if !ok {
		return nil, refuse(ctx, oncekeeper.ErrInvalidRequest, req.GetKey().GetOperation())
	}
	f.mu.Lock()
	f.fails = append(f.fails, req.GetRetention().AsDuration())
	f.mu.Unlock()
	rec, err := f.settle(ctx, lifecycle.Settle{
		Key: wire.KeyFromProto(req.GetKey()), Token: req.GetFencingToken(),
		As: as, Status: wire.StatusFromProto(req.GetStatus()), Retention: req.GetRetention().AsDuration(), NotRun: req.GetNotRun(),
	})
	if err != nil {
		return nil, err
	}
	return &pb.FailResponse{ExpireTime: wire.InstantToProto(rec.Expires)}, nil
}

func (f *fake) settle(ctx context.Context, cmd lifecycle.Settle) (*oncekeeper.KeyRecord, error) {
	rec, verdict, _ := f.apply(cmd)
	if err := verdict.Err(); err != nil {
		return nil, refuse(ctx, err, cmd.Key.Operation)
	}
	return rec, nil
}

func (f *fake) Get(ctx context.Context, req *pb.GetRequest) (*pb.GetResponse, error) {
	f.enter(ctx, "Get")
	rec := f.record(wire.KeyFromProto(req.GetKey()))
	if rec == nil {
		return nil, refuse(ctx, oncekeeper.ErrKeyNotFound, req.GetKey().GetOperation())
	}
	told := wire.RecordToProto(rec, lifecycle.StateAt(rec, f.now()))
	told.History = wire.HistoryToProto(lifecycle.History(rec, f.now()))
	return &pb.GetResponse{Record: told}, nil
}
