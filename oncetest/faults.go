package oncetest

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// faults stands between a Server and its clients: it sees which attempts run, and
// keeps calls from the service.
type faults struct {
	mu sync.Mutex
	// changed is closed and replaced at every change.
	changed chan struct{}

	down bool
	// lost is how many more settlements are lost.
	lost int
	// asked counts Begins.
	asked int
	// running attempts, granted and not settled.
	running map[attempt]struct{}
	// leases is when the last of all leases given ends.
	leases time.Time
}

// attempt is a granted key.
type attempt struct {
	tenant, operation, id string
	token                 int64
}

func newFaults() *faults {
	return &faults{changed: make(chan struct{}), running: map[attempt]struct{}{}}
}

// change changes f, and wakes whoever awaits something of it.
func (f *faults) change(how func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how()
	close(f.changed)
	f.changed = make(chan struct{})
}

// await waits until what is true of f; it gives ctx's cause where that comes first.
func (f *faults) await(ctx context.Context, what func() bool) error {
	for {
		f.mu.Lock()
		met, changed := what(), f.changed
		f.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var (
	errDown = status.Error(codes.Unavailable, "oncetest: the service is down")
	// errLost is a verdict, so that a client does not send again what is to be lost.
	errLost = func() error {
		denied, _ := oncekeeper.SentinelOf(oncekeeper.ErrPermissionDenied)
		return wire.Status(denied, "", wire.Details{}).Err()
	}()
)

// intercept is a client's interceptor.
func (f *faults) intercept(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	settled := settledBy(request)
	var refusal error
	f.change(func() {
		switch {
		case f.down:
			refusal = errDown
		case len(settled) > 0 && f.lost > 0:
			f.lost--
			refusal = errLost
		}
		if method == pb.IdempotencyService_Begin_FullMethodName || method == pb.IdempotencyService_BatchBegin_FullMethodName {
			f.asked++
		}
	})
	err := refusal
	if err == nil {
		err = invoke(ctx, method, request, reply, conn, options...)
	}
	f.change(func() {
		for _, a := range settled {
			delete(f.running, a)
		}
		if err == nil {
			f.see(request, reply)
		}
	})
	return err
}

// see takes what the service gave.
func (f *faults) see(request, reply any) {
	switch r := reply.(type) {
	case *pb.BeginResponse:
		if req, ok := request.(*pb.BeginRequest); ok {
			f.granted(req.GetKey(), r.GetGrant())
		}
	case *pb.BatchBeginResponse:
		if req, ok := request.(*pb.BatchBeginRequest); ok {
			for i, result := range r.GetResults() {
				f.granted(req.GetRequests()[i].GetKey(), result.GetResponse().GetGrant())
			}
		}
	case *pb.RenewResponse:
		f.extended(r.GetLeaseExpireTime().AsTime())
	}
}

func (f *faults) granted(key *pb.Key, grant *pb.Grant) {
	if grant == nil {
		return
	}
	f.running[attemptOf(key, grant.GetFencingToken())] = struct{}{}
	f.extended(grant.GetLeaseExpireTime().AsTime())
}

func (f *faults) extended(to time.Time) {
	if to.After(f.leases) {
		f.leases = to
	}
}

// settledBy gives the attempts that a request settles.
func settledBy(request any) []attempt {
	switch r := request.(type) {
	case *pb.CompleteRequest:
		return []attempt{attemptOf(r.GetKey(), r.GetFencingToken())}
	case *pb.FailRequest:
		return []attempt{attemptOf(r.GetKey(), r.GetFencingToken())}
	case *pb.BatchSettleRequest:
		var all []attempt
		for _, s := range r.GetSettlements() {
			if c := s.GetComplete(); c != nil {
				all = append(all, attemptOf(c.GetKey(), c.GetFencingToken()))
			} else if f := s.GetFail(); f != nil {
				all = append(all, attemptOf(f.GetKey(), f.GetFencingToken()))
			}
		}
		return all
	default:
		return nil
	}
}

func attemptOf(key *pb.Key, token int64) attempt {
	return attempt{tenant: key.GetTenant(), operation: key.GetOperation(), id: key.GetId(), token: token}
}

// Down has every call of the Server's clients answered UNAVAILABLE, until Up. A
// client that retries does so on its clock, which is to be moved for that.
func (s *Server) Down() { s.faults.change(func() { s.faults.down = true }) }

// Up ends Down.
func (s *Server) Up() { s.faults.change(func() { s.faults.down = false }) }

// LoseSettlements keeps the next n settlements from the service, as if their process
// had died just before: an attempt ran, and nobody tells. Its caller is answered all
// the same, and its lease runs on; see EndLeases.
func (s *Server) LoseSettlements(n int) { s.faults.change(func() { s.faults.lost = n }) }

// EndLeases moves the Clock to where every lease that was given has ended. An
// attempt that runs still has then outlived its own: its context ends, and the next
// Begin takes over.
func (s *Server) EndLeases() {
	s.faults.mu.Lock()
	end := s.faults.leases
	s.faults.mu.Unlock()
	if left := end.Sub(s.Clock.Now()); left > 0 {
		s.Clock.Advance(left)
	}
}
