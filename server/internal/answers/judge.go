package answers

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// refusals are the verdicts of errors that have a sentinel.
var refusals = []struct {
	sentinel error
	verdict  Verdict
}{
	{oncekeeper.ErrInvalidRequest, Invalid},
	{oncekeeper.ErrFingerprintMismatch, Mismatch},
	{oncekeeper.ErrFenced, Fenced},
	{oncekeeper.ErrAlreadySettled, AlreadySettled},
	{oncekeeper.ErrUnresolved, Unresolved},
	{oncekeeper.ErrKeyNotFound, NotFound},
	{oncekeeper.ErrOverloaded, Overloaded},
	{oncekeeper.ErrStoreUnavailable, Unavailable},
	{oncekeeper.ErrInProgress, InProgress},
	{oncekeeper.ErrAttemptsExhausted, Exhausted},
	{oncekeeper.ErrAskAlone, AskAlone},
	{oncekeeper.ErrEtagMismatch, EtagMismatch},
	{oncekeeper.ErrUnauthenticated, Refused},
	{oncekeeper.ErrPermissionDenied, Refused},
}

// refusal gives the verdict of what a call failed with.
func refusal(err error) Verdict {
	for _, r := range refusals {
		if errors.Is(err, r.sentinel) {
			return r.verdict
		}
	}
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded:
		return Left
	default:
		return Internal
	}
}

// begun gives the verdict of a Begin that was answered.
func begun(res *pb.BeginResponse) Verdict {
	switch {
	case res.GetGrant().GetTakeover():
		return Takeover
	case res.GetGrant() != nil:
		return Granted
	case res.GetOutcome().GetOrigin() == pb.Outcome_ORIGIN_EXHAUSTED:
		return Exhausted
	case res.GetOutcome() != nil:
		return Replayed
	case res.GetUnresolved() != nil:
		return Unresolved
	default:
		return InProgress
	}
}

// failedAs gives the verdict of a Fail that was answered.
func failedAs(d pb.FailRequest_Disposition) Verdict {
	switch d {
	case pb.FailRequest_DISPOSITION_FINAL:
		return Failed
	case pb.FailRequest_DISPOSITION_RETRYABLE:
		return Released
	default:
		return Unknown
	}
}

// Judge tells each verdict that the answer to a call holds, and the key that it is
// about; nil where it is about none.
func Judge(req, res any, err error, tell func(*pb.Key, Verdict)) {
	switch req := req.(type) {
	case *pb.BatchBeginRequest:
		if err == nil {
			judgeBegins(req, res.(*pb.BatchBeginResponse), tell)
			return
		}
	case *pb.BatchSettleRequest:
		if err == nil {
			judgeSettlements(req, res.(*pb.BatchSettleResponse), tell)
			return
		}
	}
	var key *pb.Key
	if keyed, is := req.(interface{ GetKey() *pb.Key }); is {
		key = keyed.GetKey()
	}
	if err != nil {
		tell(key, refusal(wire.FromError(err, nil)))
		return
	}
	tell(key, answered(req, res))
}

// answered gives the verdict of a call of one verdict that did not fail.
func answered(req, res any) Verdict {
	switch req := req.(type) {
	case *pb.BeginRequest:
		return begun(res.(*pb.BeginResponse))
	case *pb.RenewRequest:
		return Renewed
	case *pb.CompleteRequest:
		return Completed
	case *pb.FailRequest:
		return failedAs(req.GetDisposition())
	default:
		return Done
	}
}

func judgeBegins(req *pb.BatchBeginRequest, res *pb.BatchBeginResponse, tell func(*pb.Key, Verdict)) {
	for i, item := range res.GetResults() {
		key := req.GetRequests()[i].GetKey()
		if e := item.GetError(); e != nil {
			tell(key, refusal(wire.BatchErrorFromProto(e, "")))
			continue
		}
		tell(key, begun(item.GetResponse()))
	}
}

func judgeSettlements(req *pb.BatchSettleRequest, res *pb.BatchSettleResponse, tell func(*pb.Key, Verdict)) {
	for i, item := range res.GetResults() {
		settlement := req.GetSettlements()[i]
		key, as := settlement.GetComplete().GetKey(), Completed
		if fail := settlement.GetFail(); fail != nil {
			key, as = fail.GetKey(), failedAs(fail.GetDisposition())
		}
		if e := item.GetError(); e != nil {
			as = refusal(wire.BatchErrorFromProto(e, ""))
		}
		tell(key, as)
	}
}
