package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	authn "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

// Who calls is found for each call anew, and what they may do is asked in permit
// alone: before a record is read, and so before anything is replayed or waited for.
// Where no principals are set, anyone may do everything.

// trusted gives the interceptors that let nobody in whom nobody knows. Health is for
// whoever asks. Reflection is for principals: it shows no more than the contract does.
func (s *Server) trusted() (grpc.ServerOption, grpc.ServerOption) {
	if s.trust == nil {
		return grpc.ChainUnaryInterceptor(s.refuseUndecoded), grpc.EmptyServerOption{}
	}
	asked := selector.MatchFunc(func(_ context.Context, call middleware.CallMeta) bool {
		return call.Service != healthpb.Health_ServiceDesc.ServiceName
	})
	return grpc.ChainUnaryInterceptor(
			selector.UnaryServerInterceptor(authn.UnaryServerInterceptor(s.identify), asked),
			s.refuseUndecoded,
			selector.UnaryServerInterceptor(s.authorise, asked),
		),
		grpc.ChainStreamInterceptor(
			selector.StreamServerInterceptor(authn.StreamServerInterceptor(s.identify), asked),
			selector.StreamServerInterceptor(s.keepJudging, asked),
		)
}

// keepJudging asks at each message of a stream who sends it.
func (s *Server) keepJudging(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return handler(srv, &judgedStream{ServerStream: stream, server: s})
}

type judgedStream struct {
	grpc.ServerStream
	server *Server
}

// RecvMsg implements grpc.ServerStream.
func (j *judgedStream) RecvMsg(m any) error {
	if err := j.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	_, err := j.server.identify(j.Context())
	return err
}

// judgeEvery is how often it is asked again whether who waits may still do so.
const judgeEvery = time.Second

// stillMay says whether who makes a Begin may still make it about key: nil,
// ErrUnauthenticated or ErrPermissionDenied. A call that waits is asked while it does,
// and before it is given anything.
func (s *Server) stillMay(ctx context.Context, key oncekeeper.Key) error {
	if s.trust == nil {
		return nil
	}
	const method = pb.IdempotencyService_Begin_FullMethodName
	p, err := s.known(ctx)
	if err != nil {
		return err
	}
	if p.Name() != auth.FromContext(ctx).Name() || !p.May(method, key.Tenant, key.Operation) {
		return s.denied(ctx, method)
	}
	return nil
}

// identify gives a context that says who calls.
func (s *Server) identify(ctx context.Context) (context.Context, error) {
	p, err := s.known(ctx)
	if err != nil {
		return nil, s.statusOf(ctx, err, "")
	}
	connectionIsKnown(ctx)
	seePrincipal(ctx, p)
	return auth.NewContext(ctx, p), nil
}

// known gives who makes the call that ctx is of, and logs now and then why that is not
// known.
func (s *Server) known(ctx context.Context) (*auth.Principal, error) {
	p, err := s.trust.Identify(ctx, s.clock.Now())
	if refused := (*auth.Refusal)(nil); errors.As(err, &refused) {
		s.strangers.log(ctx, s.log, refused.Kind, err)
	}
	return p, err
}

// authorise refuses a call that its principal may not make. Those of many keys are
// let through to where each key, or each scope, is asked about.
func (s *Server) authorise(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	var err error
	operation := ""
	switch req := req.(type) {
	case *pb.BatchBeginRequest, *pb.BatchSettleRequest, *pb.ListRecordsRequest, *pb.SweepRequest:
		if !auth.FromContext(ctx).MayCall(info.FullMethod) {
			err = s.denied(ctx, info.FullMethod)
		}
	case interface{ GetKey() *pb.Key }:
		err = s.permit(ctx, info.FullMethod, req.GetKey())
		if named := req.GetKey().GetOperation(); len(named) <= oncekeeper.MaxOperationBytes {
			operation = named // a longer one may be larger than any client takes in a trailer
		}
	default:
		err = s.permit(ctx, info.FullMethod, nil)
	}
	if err != nil {
		return nil, s.statusOf(ctx, err, operation)
	}
	return handler(ctx, req)
}

// permit says whether who makes a call may make it about key: nil, or
// ErrPermissionDenied, whatever is known of the key.
func (s *Server) permit(ctx context.Context, method string, key *pb.Key) error {
	if s.trust == nil || auth.FromContext(ctx).May(method, key.GetTenant(), key.GetOperation()) {
		return nil
	}
	return s.denied(ctx, method)
}

// denied is what who calls may not do. It is logged now and then: who is refused
// cannot be told more, and who serves has to know.
func (s *Server) denied(ctx context.Context, method string) error {
	principal := auth.FromContext(ctx).Name()
	s.refused.log(ctx, s.log, principal, method)
	return fmt.Errorf("%w: principal %s, %s", oncekeeper.ErrPermissionDenied, principal, method)
}

// scopes gives what of tenant and operation, an empty one of which stands for all,
// who calls may do. Where that is more than most scopes the call has to name them,
// which f says; where it is nothing the error is ErrPermissionDenied.
func (s *Server) scopes(ctx context.Context, f *fields, method, tenant, operation string, most int) ([]auth.Scope, error) {
	if s.trust == nil {
		return []auth.Scope{{Tenant: tenant, Operation: operation}}, nil
	}
	all, ok := auth.FromContext(ctx).Scopes(tenant, operation)
	switch {
	case !ok || len(all) > most:
		const why = "is required: who calls may not do this for all, so name one"
		if tenant == "" {
			f.refuse("tenant", why)
		} else {
			f.refuse("operation", why)
		}
		return nil, f.err()
	case len(all) == 0:
		return nil, s.denied(ctx, method)
	}
	return all, nil
}
