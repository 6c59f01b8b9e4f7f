package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

const operation = "bench.Payments/Charge"

// load is one kind of work.
type load struct {
	name string
	// callers do it at once, and each turn of one is so many units.
	callers, units int
	turn           func(ctx context.Context) error
	// server is the process that answers, 0 for one elsewhere, and faults what it
	// answered beside verdicts.
	server int
	faults *faults
	// tried: who is told that the service is overloaded comes back, as callers do.
	// Elsewhere it ends the run.
	tried bool
}

// spread has calls take turns on connections, and counts those that fail.
type spread struct {
	conns  []*grpc.ClientConn
	next   *atomic.Uint64
	faults *faults
}

func (s spread) conn() *grpc.ClientConn {
	return s.conns[s.next.Add(1)%uint64(len(s.conns))]
}

func (s spread) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	err := s.conn().Invoke(ctx, method, args, reply, opts...)
	s.faults.count(err)
	return err
}

func (s spread) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return s.conn().NewStream(ctx, desc, method, opts...)
}

// work makes the loads of one run.
type work struct {
	cfg      Config
	space    string
	service  pb.IdempotencyServiceClient
	keeper   *client.Client
	together *client.Client
	// made counts the keys, and empties the empty calls.
	made, empties atomic.Int64
	digest        []byte
	bodies        bodies
	faults        *faults
}

func newWork(cfg Config) *work {
	conns := spread{conns: cfg.Conns, next: &atomic.Uint64{}, faults: &faults{}}
	return &work{
		cfg: cfg, space: newSpace(), service: pb.NewIdempotencyServiceClient(conns),
		keeper: client.New(conns), together: client.New(conns, client.WithCoalescing()),
		digest: []byte("0123456789abcdef0123456789abcdef"), bodies: newBodies(cfg.ResponseBytes), faults: conns.faults,
	}
}

// newKey gives one that nobody has. The first Keys are those that fill makes.
func (w *work) newKey() oncekeeper.Key { return w.key(w.made.Add(1) - 1) }

func (w *work) key(n int64) oncekeeper.Key {
	return oncekeeper.Key{
		Tenant: tenantOf(w.space, int(n), w.cfg.Tenants), Operation: operation,
		// Spread over the store, as most callers' keys are.
		ID: fmt.Sprintf("%016x-%d", uint64(n)*0x9e3779b97f4a7c15, n),
	}
}

func (w *work) request(key oncekeeper.Key) client.BeginRequest {
	return client.BeginRequest{Key: key, Fingerprint: w.digest, FingerprintScheme: "raw", Lease: 30 * time.Second, Retention: keeps}
}

func (w *work) settlement(key oncekeeper.Key, token int64) client.Settlement {
	return client.Settlement{Key: key, Token: token, Ended: client.Ended{
		As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{Body: w.bodies.next(), ContentType: "application/octet-stream"},
	}}
}

// loads gives what is measured with so many callers.
func (w *work) loads(callers int, empty bool) []load {
	var loads []load
	if empty {
		loads = append(loads, load{name: Empty, callers: callers, units: 1, turn: w.emptyCall})
	}
	loads = append(loads,
		load{name: Pairs, callers: callers, units: 1, turn: func(ctx context.Context) error { return w.pair(ctx, w.keeper) }},
		load{name: Coalesced, callers: callers, units: 1, turn: func(ctx context.Context) error { return w.pair(ctx, w.together) }},
		load{name: Replays, callers: callers, units: 1, turn: w.replay},
		load{name: Batches, callers: max(1, callers/16), units: BatchItems, turn: w.batch},
	)
	if w.cfg.Plain != nil {
		loads = append(loads, load{name: Plain, callers: callers, units: 1, turn: func(ctx context.Context) error {
			return w.cfg.Plain(ctx, fmt.Sprintf("%s-%d", w.space, w.made.Add(1)), w.bodies.next())
		}})
	}
	for i := range loads {
		loads[i].server, loads[i].faults = w.cfg.ServerPID, w.faults
	}
	return loads
}

// emptyCall is, in turns, a Begin and a Complete that nothing is done for. It has a
// deadline, which is part of what a call costs, as each of the client's has.
func (w *work) emptyCall(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, client.DefaultCallTimeout)
	defer cancel()
	n := w.empties.Add(1)
	key := w.key(n)
	p := &pb.Key{Tenant: key.Tenant, Operation: key.Operation, Id: key.ID}
	if n%2 == 0 {
		_, err := w.service.Begin(ctx, &pb.BeginRequest{
			Key: p, Fingerprint: w.digest, FingerprintScheme: "raw", CallId: "0123456789abcdef0123456789abcdef",
			Lease: durationpb.New(30 * time.Second), Retention: durationpb.New(keeps), Holder: emptyHolder,
		})
		return err
	}
	_, err := w.service.Complete(ctx, &pb.CompleteRequest{
		Key: p, FencingToken: emptyToken, Response: &pb.StoredResponse{Body: w.bodies.next(), ContentType: "application/octet-stream"},
	})
	return err
}

func (w *work) pair(ctx context.Context, by *client.Client) error {
	key := w.newKey()
	answer, err := by.Begin(ctx, w.request(key))
	if err != nil {
		return err
	}
	if answer.Grant == nil {
		return fmt.Errorf("a new key was not granted, but %+v", answer)
	}
	_, err = by.Settle(ctx, w.settlement(key, answer.Grant.Token))
	return err
}

func (w *work) replay(ctx context.Context) error {
	n := w.empties.Add(1) % int64(w.cfg.Keys)
	req := w.request(w.key(n))
	req.Retention = 0
	answer, err := w.keeper.Begin(ctx, req)
	if err != nil {
		return err
	}
	if o := answer.Outcome; o == nil || len(o.Response.Body) != w.cfg.ResponseBytes {
		return fmt.Errorf("a completed key was not replayed, but %+v", answer)
	}
	return nil
}

func (w *work) batch(ctx context.Context) error {
	return w.pairsTogether(ctx, BatchItems, keeps, w.newKey)
}

// pairsTogether has n keys run, begun in one call and settled in another.
func (w *work) pairsTogether(ctx context.Context, n int, retention time.Duration, next func() oncekeeper.Key) error {
	reqs := make([]client.BeginRequest, n)
	for i := range reqs {
		reqs[i] = w.request(next())
		reqs[i].Retention = retention
	}
	begun, err := w.keeper.BatchBegin(ctx, reqs)
	if err != nil {
		return err
	}
	settlements := make([]client.Settlement, n)
	for i, b := range begun {
		if b.Err != nil || b.Answer.Grant == nil {
			return fmt.Errorf("a new key of a batch was not granted, but %+v: %w", b.Answer, b.Err)
		}
		settlements[i] = w.settlement(reqs[i].Key, b.Answer.Grant.Token)
	}
	settled, err := w.keeper.BatchSettle(ctx, settlements)
	for _, s := range settled {
		err = joined(err, s.Err)
	}
	return err
}

func joined(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
