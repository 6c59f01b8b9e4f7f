package server

import (
	"context"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/auth"
	"github.com/oncekeeper/oncekeeper/storage"
)

// admin is AdminService: what people need when a key has to be looked into or put
// right. What it changes goes the way of every other change, so whoever waits for
// the key is told.
type admin struct {
	pb.UnimplementedAdminServiceServer
	*Server
}

func (s admin) ResolveRecord(ctx context.Context, req *pb.ResolveRecordRequest) (*pb.ResolveRecordResponse, error) {
	var f fields
	cmd := readResolve(&f, req, s.policyOf(req.GetKey()))
	cmd.Principal = auth.FromContext(ctx).Name()
	res, err := s.operate(ctx, &f, cmd)
	if err != nil {
		return nil, s.statusOf(ctx, err, req.GetKey().GetOperation())
	}
	state := lifecycle.StateAt(res.Record, res.Now)
	s.logOperator(ctx, "an operator resolved a key", cmd.Key, cmd.Force, cmd.Reason, "state", state.String())
	return &pb.ResolveRecordResponse{Record: recordAnswer(res.Record, res.Now)}, nil
}

func (s admin) DeleteRecord(ctx context.Context, req *pb.DeleteRecordRequest) (*pb.DeleteRecordResponse, error) {
	var f fields
	cmd := readDelete(&f, req)
	cmd.Principal = auth.FromContext(ctx).Name()
	if _, err := s.operate(ctx, &f, cmd); err != nil {
		return nil, s.statusOf(ctx, err, req.GetKey().GetOperation())
	}
	s.logOperator(ctx, "an operator deleted a key", cmd.Key, cmd.Force, cmd.Reason)
	return &pb.DeleteRecordResponse{}, nil
}

// operate applies an operator's command. A live record's refusal says when to come
// back.
func (s admin) operate(ctx context.Context, f *fields, cmd lifecycle.Command) (storage.Result, error) {
	if err := f.err(); err != nil {
		return storage.Result{}, err
	}
	res := s.apply(ctx, cmd)[0]
	if res.Err == nil && res.Verdict == lifecycle.Live {
		return res, &busy{left: res.Record.LeaseEnd.Sub(res.Now)}
	}
	return res, res.Refusal()
}

// operatorOf says for the log who operates, where that is known.
func operatorOf(ctx context.Context) []any {
	if p := auth.FromContext(ctx); p != nil {
		return []any{"principal", p.Name()}
	}
	return nil
}

// logOperator logs why an operator changed a key, at info: it is rare, and the
// record, which keeps it too, expires.
func (s *Server) logOperator(ctx context.Context, what string, key oncekeeper.Key, force bool, reason string, more ...any) {
	args := []any{"key_hash", key.Hash(), "operation", key.Operation, "force", force, "reason", reason}
	args = append(args, operatorOf(ctx)...)
	s.log.InfoContext(ctx, what, append(args, more...)...)
}
