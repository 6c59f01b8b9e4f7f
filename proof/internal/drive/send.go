package drive

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/proof/internal/history"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// callTimeout bounds a call.
const callTimeout = time.Second

// reply is what came back for one operation.
type reply struct {
	answer *history.Answer
	err    error
}

// exchange makes one call at some server, which is about ops, and records them.
func (c *client) exchange(ctx context.Context, ops []*history.Operation, call func(context.Context, server) []reply) {
	at := c.random.IntN(len(c.run.servers))
	timeout := callTimeout
	if c.of(5) {
		timeout = time.Duration(1+c.random.IntN(30)) * time.Millisecond // a caller that leaves
	}
	left := &departure{run: c.run}
	bounded, cancel := context.WithTimeout(context.WithValue(ctx, departureKey{}, left), timeout)
	defer cancel()
	from, called := time.Now(), c.run.Now()
	replies := call(bounded, c.run.servers[at])
	returned := c.run.Now()
	earliest, latest := c.run.cfg.Bounds(from, time.Now())
	waits := false
	for i, o := range ops {
		o.Client, o.Server, o.Call, o.Return, o.Earliest, o.Latest = c.id, at, called, returned, earliest, latest
		waits = c.settleUp(o, replies[i], left.at.Load()) || waits
	}
	if waits {
		c.awaitServer(ctx)
	}
}

// settleUp records what became of o, unless it surely did nothing: it never left, or
// the server said that it did not take it. It says whether no answer came.
func (c *client) settleUp(o *history.Operation, r reply, sent int64) (lost bool) {
	if r.err == nil {
		o.Answer = r.answer
		c.run.keep(o, sent)
		return false
	}
	s, known := oncekeeper.SentinelOf(r.err)
	if verdict, refused := refusals[s]; known && refused {
		o.Answer = &history.Answer{Verdict: verdict}
		c.run.keep(o, sent)
		return false
	}
	switch code := status.Code(r.err); {
	case errors.Is(r.err, oncekeeper.ErrOverloaded), errors.Is(r.err, oncekeeper.ErrAskAlone):
		return false
	case errors.Is(r.err, oncekeeper.ErrStoreUnavailable), code == codes.Unavailable, code == codes.DeadlineExceeded, code == codes.Canceled:
		o.Lost = code.String()
		if known {
			o.Lost = s.Reason()
		}
		if sent > 0 {
			c.run.keep(o, sent)
		}
		return true
	default:
		c.run.refuse(fmt.Sprintf("%s: %v", o.Asked(), r.err))
		return false
	}
}

// refusals are the verdicts that travel as errors.
var refusals = func() map[*oncekeeper.Error]lifecycle.Verdict {
	all := map[*oncekeeper.Error]lifecycle.Verdict{}
	for _, v := range []lifecycle.Verdict{
		lifecycle.Mismatch, lifecycle.NotFound, lifecycle.Fenced, lifecycle.AlreadySettled, lifecycle.EtagMismatch, lifecycle.Live,
	} {
		s, _ := oncekeeper.SentinelOf(v.Err())
		all[s] = v
	}
	return all
}()

// awaitServer begins keys of no history until some server grants one, so that an
// outage leaves few operations open.
func (c *client) awaitServer(ctx context.Context) {
	for deadline := time.Now().Add(c.run.cfg.Patience); ctx.Err() == nil; {
		if c.probe(ctx, c.run.servers[c.random.IntN(len(c.run.servers))]) {
			return
		}
		if time.Now().After(deadline) {
			c.run.stuck.Store(true)
			return
		}
		time.Sleep(time.Duration(1+c.random.IntN(20)) * time.Millisecond)
	}
}

func (c *client) probe(ctx context.Context, s server) bool {
	ctx, cancel := context.WithTimeout(ctx, callTimeout/2)
	defer cancel()
	_, err := s.keeper.Begin(ctx, &pb.BeginRequest{Key: &pb.Key{Tenant: c.run.cfg.Tenant, Operation: "proof.Run/Probe", Id: c.unique("probe")}})
	return err == nil
}

// departure notes when a call last left its caller: one that never did cannot have
// done anything.
type departure struct {
	run *Run
	at  atomic.Int64
}

type departureKey struct{}

// Departures is a handler that connections given to a run must have.
type Departures struct{}

// TagRPC implements stats.Handler.
func (Departures) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (Departures) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if left, ok := ctx.Value(departureKey{}).(*departure); ok {
		if _, leaves := s.(*stats.OutHeader); leaves {
			left.at.Store(left.run.Now())
		}
	}
}

// TagConn implements stats.Handler.
func (Departures) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (Departures) HandleConn(context.Context, stats.ConnStats) {}
