package drive

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/proof/internal/history"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// Operations become requests here, and what comes back answers.

// send makes one call for one operation.
func send(ctx context.Context, s server, k *key, o *history.Operation) reply {
	var trailer metadata.MD
	a, err := ask(ctx, s, k, o, grpc.Trailer(&trailer))
	if err != nil {
		return reply{err: wire.FromError(err, trailer)}
	}
	return reply{answer: a}
}

func ask(ctx context.Context, s server, k *key, o *history.Operation, opt grpc.CallOption) (*history.Answer, error) {
	switch {
	case o.Begin != nil:
		res, err := s.keeper.Begin(ctx, beginRequest(k, o), opt)
		return begun(res), err
	case o.Renew != nil:
		res, err := s.keeper.Renew(ctx, &pb.RenewRequest{
			Key: k.proto(), FencingToken: o.Renew.Token, Lease: optional(o.Renew.Lease), Checkpoint: o.Renew.Checkpoint,
		}, opt)
		return &history.Answer{Verdict: lifecycle.Renewed, Lease: res.GetLease().AsDuration(), LeaseEnd: instant(res.GetLeaseExpireTime())}, err
	case o.Settle != nil && o.Settle.As == oncekeeper.SettledComplete:
		res, err := s.keeper.Complete(ctx, completeRequest(k, o.Settle), opt)
		return &history.Answer{Verdict: lifecycle.Settled, Expires: instant(res.GetExpireTime())}, err
	case o.Settle != nil:
		res, err := s.keeper.Fail(ctx, failRequest(k, o.Settle), opt)
		return &history.Answer{Verdict: lifecycle.Settled, Expires: instant(res.GetExpireTime())}, err
	case o.Resolve != nil:
		res, err := s.admin.ResolveRecord(ctx, resolveRequest(k, o.Resolve), opt)
		return &history.Answer{Verdict: lifecycle.Resolved, Record: viewed(res.GetRecord())}, err
	case o.Delete != nil:
		_, err := s.admin.DeleteRecord(ctx, &pb.DeleteRecordRequest{Key: k.proto(), Etag: o.Delete.Etag, Force: o.Delete.Force, Reason: "proof"}, opt)
		return &history.Answer{Verdict: lifecycle.Deleted}, err
	default:
		res, err := s.keeper.Get(ctx, &pb.GetRequest{Key: k.proto()}, opt)
		return &history.Answer{Record: viewed(res.GetRecord())}, err
	}
}

func beginRequest(k *key, o *history.Operation) *pb.BeginRequest {
	b := o.Begin
	return &pb.BeginRequest{
		Key: k.proto(), Fingerprint: b.Fingerprint, FingerprintScheme: b.FingerprintScheme, CallId: b.CallID, Holder: b.Holder,
		Lease: durationpb.New(b.Grant.Lease), Retention: durationpb.New(b.Grant.Retention), Wait: optional(o.Wait),
		OnLeaseExpiry: wire.HoldToProto(b.Grant.Hold), MaxAttempts: b.Grant.MaxAttempts,
	}
}

func completeRequest(k *key, s *lifecycle.Settle) *pb.CompleteRequest {
	return &pb.CompleteRequest{Key: k.proto(), FencingToken: s.Token, Response: wire.ResponseToProto(s.Response), Retention: optional(s.Retention)}
}

func failRequest(k *key, s *lifecycle.Settle) *pb.FailRequest {
	return &pb.FailRequest{
		Key: k.proto(), FencingToken: s.Token, Disposition: wire.DispositionToProto(s.As), Status: wire.StatusToProto(s.Status), Retention: optional(s.Retention),
	}
}

func resolveRequest(k *key, r *lifecycle.Resolve) *pb.ResolveRecordRequest {
	req := &pb.ResolveRecordRequest{Key: k.proto(), Etag: r.Etag, Force: r.Force, Reason: "proof"}
	switch {
	case r.Response != nil:
		req.Resolution = &pb.ResolveRecordRequest_Completed{Completed: wire.ResponseToProto(r.Response)}
	case r.Status != nil:
		req.Resolution = &pb.ResolveRecordRequest_Failed{Failed: wire.StatusToProto(r.Status)}
	default:
		req.Resolution = &pb.ResolveRecordRequest_Release_{Release: &pb.ResolveRecordRequest_Release{}}
	}
	return req
}

func begun(res *pb.BeginResponse) *history.Answer {
	switch r := res.GetResult().(type) {
	case *pb.BeginResponse_Grant:
		g := r.Grant
		return &history.Answer{
			Verdict: lifecycle.Granted, Token: g.GetFencingToken(), Lease: g.GetLease().AsDuration(), LeaseEnd: instant(g.GetLeaseExpireTime()),
			Attempt: g.GetAttemptNumber(), Takeover: g.GetTakeover(), Checkpoint: g.GetCheckpoint(),
		}
	case *pb.BeginResponse_Outcome:
		return &history.Answer{Verdict: lifecycle.Replayed, Outcome: wire.OutcomeFromProto(r.Outcome)}
	case *pb.BeginResponse_Unresolved:
		u := r.Unresolved
		return &history.Answer{
			Verdict: lifecycle.Unresolved, Token: u.GetFencingToken(), Attempt: u.GetAttemptNumber(), Since: instant(u.GetSince()), Checkpoint: u.GetCheckpoint(),
		}
	default:
		p := res.GetInProgress()
		return &history.Answer{Verdict: lifecycle.InProgress, LeaseEnd: instant(p.GetLeaseExpireTime()), Attempt: p.GetAttemptNumber()}
	}
}

func viewed(r *pb.KeyRecord) *history.View {
	if r == nil {
		return nil
	}
	return &history.View{
		State: wire.StateFromProto(r.GetState()), Etag: r.GetEtag(), Fingerprint: r.GetFingerprint(), FingerprintScheme: r.GetFingerprintScheme(),
		Token: r.GetFencingToken(), Attempt: r.GetAttemptNumber(), Holder: r.GetHolder(), Created: instant(r.GetCreateTime()),
		LeaseEnd: instant(r.GetLeaseExpireTime()), Settled: instant(r.GetSettleTime()), Expires: instant(r.GetExpireTime()),
		Outcome: wire.OutcomeFromProto(r.GetOutcome()), Checkpoint: r.GetCheckpoint(), Hold: r.GetOnLeaseExpiry() == pb.LeaseExpiry_LEASE_EXPIRY_HOLD,
	}
}

// optional leaves out what is not asked for.
func optional(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
