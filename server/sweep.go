package server

import (
	"context"
	"errors"
	"time"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/auth"
	"github.com/oncekeeper/oncekeeper/storage"
)

// defaultSweep is how many records one Sweep deletes where its caller does not
// say.
const defaultSweep = 10_000

func (s admin) Sweep(ctx context.Context, req *pb.SweepRequest) (*pb.SweepResponse, error) {
	var f fields
	q := readSweep(&f, req)
	if err := f.err(); err != nil {
		return nil, s.statusOf(ctx, err, req.GetOperation())
	}
	q.Grace = s.sweeper.cfg.Grace
	scopes, err := s.scopes(ctx, &f, pb.AdminService_Sweep_FullMethodName, q.Tenant, q.Operation, maxScopes)
	if err != nil {
		return nil, s.statusOf(ctx, err, req.GetOperation())
	}
	swept, err := s.sweepAll(ctx, q, scopes)
	if !q.DryRun {
		s.sweeper.counts.byHand.Add(swept.Records)
		s.log.InfoContext(ctx, "an operator swept", append(operatorOf(ctx), "records", swept.Records, "more", swept.More)...)
	}
	if err != nil {
		return nil, s.statusOf(ctx, err, req.GetOperation())
	}
	return &pb.SweepResponse{Swept: swept.Records, More: swept.More}, nil
}

// maxScopes bounds the parts of what is there that one Sweep takes one after the
// other: what a principal may be given by name.
const maxScopes = 1024

// sweepAll sweeps scope by scope, up to q's limit in all.
func (s *Server) sweepAll(ctx context.Context, q storage.SweepQuery, scopes []auth.Scope) (all storage.Swept, err error) {
	limit := q.Limit
	for _, scope := range scopes {
		if q.Limit = limit - int(all.Records); q.Limit <= 0 {
			all.More = true // nobody has looked
			break
		}
		q.Tenant, q.Operation = scope.Tenant, scope.Operation
		swept, err := s.sweepUntil(ctx, q)
		all.Records += swept.Records
		all.More = all.More || swept.More
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// errTimeIsUp ends a sweep while its caller still listens.
var errTimeIsUp = errors.New("the caller's deadline is near")

// sweepUntil sweeps until the caller's deadline is near, and then gives what was
// swept by then.
func (s *Server) sweepUntil(ctx context.Context, q storage.SweepQuery) (storage.Swept, error) {
	bounded := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		bounded, cancel = context.WithDeadlineCause(ctx, deadline.Add(-answerMargin(time.Until(deadline))), errTimeIsUp)
		defer cancel()
	}
	swept, err := s.store.Sweep(bounded, q)
	if err != nil && errors.Is(context.Cause(bounded), errTimeIsUp) && ctx.Err() == nil {
		swept.More = true
		return swept, nil
	}
	return swept, err
}

func readSweep(f *fields, req *pb.SweepRequest) storage.SweepQuery {
	q := storage.SweepQuery{Limit: int(req.GetMaxRecords()), DryRun: req.GetDryRun()}
	q.Tenant, q.Operation = f.scope(req.GetTenant(), req.GetOperation())
	switch {
	case q.Limit < 0:
		f.refuse("max_records", "is below zero")
	case q.Limit == 0:
		q.Limit = defaultSweep
	}
	return q
}
