package server

import (
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/policy"
	"github.com/oncekeeper/oncekeeper/storage"
)

// A request becomes a command here, and a result an answer. Each reader gives the
// command and adds to f what is wrong with the request. The policy is the one that
// holds for its key now; what a grant was given lies with its record.

func readBegin(f *fields, req *pb.BeginRequest, p policy.Policy) (lifecycle.Begin, time.Duration) {
	hold, known := wire.HoldFromProto(req.GetOnLeaseExpiry())
	if !known {
		f.refuse("on_lease_expiry", "is not one that this version knows")
	}
	if req.GetMaxAttempts() < 0 {
		f.refuse("max_attempts", "is below zero")
	}
	cmd := lifecycle.Begin{
		Key:               f.key("key", req.GetKey()),
		Fingerprint:       f.bytes("fingerprint", req.GetFingerprint(), oncekeeper.MaxFingerprintBytes),
		FingerprintScheme: f.text("fingerprint_scheme", req.GetFingerprintScheme(), oncekeeper.MaxSchemeBytes),
		CallID:            f.text("call_id", req.GetCallId(), oncekeeper.MaxCallIDBytes),
		Holder:            f.text("holder", req.GetHolder(), oncekeeper.MaxHolderBytes),
		TraceParent:       traceParent(req.GetTraceParent()),
		Grant: p.Grant(policy.Ask{
			Lease:       f.duration("lease", req.GetLease()),
			Retention:   f.duration("retention", req.GetRetention()),
			MaxAttempts: req.GetMaxAttempts(),
			Hold:        hold,
		}),
	}
	return cmd, min(f.wait("wait", req.GetWait()), p.MaxWait)
}

func readRenew(f *fields, req *pb.RenewRequest, p policy.Policy) lifecycle.Renew {
	return lifecycle.Renew{
		Key:        f.key("key", req.GetKey()),
		Token:      f.token("fencing_token", req.GetFencingToken()),
		Lease:      p.ClampLease(f.duration("lease", req.GetLease())),
		Checkpoint: f.bytes("checkpoint", req.Checkpoint, oncekeeper.MaxCheckpointBytes),
	}
}

func readComplete(f *fields, req *pb.CompleteRequest, p policy.Policy) lifecycle.Settle {
	return lifecycle.Settle{
		Key:       f.key("key", req.GetKey()),
		Token:     f.token("fencing_token", req.GetFencingToken()),
		As:        oncekeeper.SettledComplete,
		Response:  f.response("response", req.GetResponse(), p.MaxResponseBytes),
		Retention: p.ClampRetention(f.duration("retention", req.GetRetention())),
	}
}

func readFail(f *fields, req *pb.FailRequest, p policy.Policy) lifecycle.Settle {
	as, known := wire.DispositionFromProto(req.GetDisposition())
	if !known {
		f.refuse("disposition", "is required: RETRYABLE, FINAL or UNKNOWN")
	}
	if req.GetNotRun() && as != oncekeeper.SettledRetryable {
		f.refuse("not_run", "goes with disposition RETRYABLE alone: what was not run did nothing")
	}
	return lifecycle.Settle{
		Key:       f.key("key", req.GetKey()),
		Token:     f.token("fencing_token", req.GetFencingToken()),
		As:        as,
		NotRun:    req.GetNotRun(),
		Status:    f.status("status", req.GetStatus(), as == oncekeeper.SettledFinal, p.MaxResponseBytes),
		Retention: p.ClampRetention(f.duration("retention", req.GetRetention())),
	}
}

func readResolve(f *fields, req *pb.ResolveRecordRequest, p policy.Policy) lifecycle.Resolve {
	cmd := lifecycle.Resolve{
		Key:   f.key("key", req.GetKey()),
		Etag:  f.etag("etag", req.GetEtag()),
		Force: req.GetForce(),
	}
	switch r := req.GetResolution().(type) {
	case *pb.ResolveRecordRequest_Completed:
		cmd.Response = f.response("completed", r.Completed, p.MaxResponseBytes)
	case *pb.ResolveRecordRequest_Failed:
		cmd.Status = f.status("failed", r.Failed, true, p.MaxResponseBytes)
	case *pb.ResolveRecordRequest_Release_:
	default:
		f.refuse("resolution", "is required: completed, failed or release")
	}
	cmd.Reason = f.reason("reason", req.GetReason())
	return cmd
}

func readDelete(f *fields, req *pb.DeleteRecordRequest) lifecycle.Delete {
	return lifecycle.Delete{
		Key:    f.key("key", req.GetKey()),
		Etag:   f.etag("etag", req.GetEtag()),
		Force:  req.GetForce(),
		Reason: f.reason("reason", req.GetReason()),
	}
}

// recordAnswer gives rec, which is not gone, as it stands at now, whole.
func recordAnswer(rec *oncekeeper.KeyRecord, now oncekeeper.Instant) *pb.KeyRecord {
	p := wire.RecordToProto(rec, lifecycle.StateAt(rec, now))
	p.History = wire.HistoryToProto(lifecycle.History(rec, now))
	return p
}

// beginAnswer gives the answer to a Begin that was not refused. Every field of it
// is read from the record.
func beginAnswer(res storage.Result, waited time.Duration, p policy.Policy) *pb.BeginResponse {
	rec := res.Record
	switch res.Verdict {
	case lifecycle.Granted:
		return &pb.BeginResponse{Result: &pb.BeginResponse_Grant{Grant: &pb.Grant{
			FencingToken:        rec.Token,
			Lease:               wire.DurationToProto(rec.LeaseEnd.Sub(res.Now)),
			Waited:              wire.OptionalDurationToProto(waited),
			LeaseExpireTime:     wire.InstantToProto(rec.LeaseEnd),
			AttemptNumber:       rec.Attempt,
			Takeover:            rec.Takeover,
			Checkpoint:          rec.Checkpoint,
			MaxResponseBytes:    p.MaxResponseBytes,
			PreviousTraceParent: previousTrace(rec),
		}}}
	case lifecycle.Replayed:
		return &pb.BeginResponse{Result: &pb.BeginResponse_Outcome{Outcome: wire.OutcomeToProto(rec.Outcome())}}
	case lifecycle.Unresolved:
		return &pb.BeginResponse{Result: &pb.BeginResponse_Unresolved{Unresolved: &pb.Unresolved{
			FencingToken:  rec.Token,
			AttemptNumber: rec.Attempt,
			Since:         wire.InstantToProto(lifecycle.UnknownSince(rec)),
			Checkpoint:    rec.Checkpoint,
			TraceParent:   rec.TraceParent,
		}}}
	default:
		return &pb.BeginResponse{Result: &pb.BeginResponse_InProgress{InProgress: &pb.InProgress{
			RetryDelay:      wire.DurationToProto(retryDelay(rec.LeaseEnd.Sub(res.Now))),
			LeaseExpireTime: wire.InstantToProto(rec.LeaseEnd),
			AttemptNumber:   rec.Attempt,
			TraceParent:     rec.TraceParent,
		}}}
	}
}

// retryDelay says when to come back for a key whose lease has left so much: a
// hundredth of it, so that short operations are asked for often and long ones are
// not.
func retryDelay(left time.Duration) time.Duration {
	return min(max(left/100, 50*time.Millisecond), time.Second)
}
