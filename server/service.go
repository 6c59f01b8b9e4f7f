package server

import (
	"context"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/auth"
	"github.com/oncekeeper/oncekeeper/storage"
)

// idempotency is IdempotencyService: each method reads its request, has the
// command applied, and gives the answer.
type idempotency struct {
	pb.UnimplementedIdempotencyServiceServer
	*Server
}

func (s idempotency) Begin(ctx context.Context, req *pb.BeginRequest) (*pb.BeginResponse, error) {
	var f fields
	p := s.policyOf(req.GetKey())
	cmd, wait := readBegin(&f, req, p)
	cmd.Principal = auth.FromContext(ctx).Name()
	if err := f.err(); err != nil {
		return nil, s.statusOf(ctx, err, req.GetKey().GetOperation())
	}
	res, waited := s.begin(ctx, cmd, wait)
	if err := res.Refusal(); err != nil {
		return nil, s.statusOf(ctx, err, cmd.Key.Operation)
	}
	return beginAnswer(res, waited, p), nil
}

func (s idempotency) Renew(ctx context.Context, req *pb.RenewRequest) (*pb.RenewResponse, error) {
	var f fields
	cmd := readRenew(&f, req, s.policyOf(req.GetKey()))
	if err := f.err(); err != nil {
		return nil, s.statusOf(ctx, err, req.GetKey().GetOperation())
	}
	res := s.apply(ctx, cmd)[0]
	if err := res.Refusal(); err != nil {
		return nil, s.statusOf(ctx, err, cmd.Key.Operation)
	}
	return &pb.RenewResponse{
		Lease:           wire.DurationToProto(res.Record.LeaseEnd.Sub(res.Now)),
		LeaseExpireTime: wire.InstantToProto(res.Record.LeaseEnd),
	}, nil
}

func (s idempotency) Complete(ctx context.Context, req *pb.CompleteRequest) (*pb.CompleteResponse, error) {
	var f fields
	cmd := readComplete(&f, req, s.policyOf(req.GetKey()))
	res, err := s.settle(ctx, &f, cmd)
	if err != nil {
		return nil, s.statusOf(ctx, err, req.GetKey().GetOperation())
	}
	return &pb.CompleteResponse{ExpireTime: wire.InstantToProto(res.Record.Expires)}, nil
}

func (s idempotency) Fail(ctx context.Context, req *pb.FailRequest) (*pb.FailResponse, error) {
	var f fields
	cmd := readFail(&f, req, s.policyOf(req.GetKey()))
	res, err := s.settle(ctx, &f, cmd)
	if err != nil {
		return nil, s.statusOf(ctx, err, req.GetKey().GetOperation())
	}
	return &pb.FailResponse{ExpireTime: wire.InstantToProto(res.Record.Expires)}, nil
}

func (s *Server) settle(ctx context.Context, f *fields, cmd lifecycle.Settle) (storage.Result, error) {
	if err := f.err(); err != nil {
		return storage.Result{}, err
	}
	res := s.apply(ctx, cmd)[0]
	return res, res.Refusal()
}

func (s idempotency) Get(ctx context.Context, req *pb.GetRequest) (*pb.GetResponse, error) {
	var f fields
	key := f.key("key", req.GetKey())
	if err := f.err(); err != nil {
		return nil, s.statusOf(ctx, err, req.GetKey().GetOperation())
	}
	found, err := s.store.Read(ctx, key)
	if err != nil {
		return nil, s.statusOf(ctx, err, key.Operation)
	}
	rec := found.Records[0]
	if rec == nil {
		return nil, s.statusOf(ctx, oncekeeper.ErrKeyNotFound, key.Operation)
	}
	return &pb.GetResponse{Record: recordAnswer(rec, found.Now)}, nil
}
