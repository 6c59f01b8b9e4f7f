package wire

import (
	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// KeyToProto gives k as a message.
func KeyToProto(k oncekeeper.Key) *pb.Key {
	return &pb.Key{Tenant: k.Tenant, Operation: k.Operation, Id: k.ID}
}

// KeyFromProto gives the zero Key for nil.
func KeyFromProto(p *pb.Key) oncekeeper.Key {
	return oncekeeper.Key{Tenant: p.GetTenant(), Operation: p.GetOperation(), ID: p.GetId()}
}

// RecordToProto gives r as read in state, bodies and checkpoint included; its history,
// which depends on the moment too, is the caller's to add.
func RecordToProto(r *oncekeeper.KeyRecord, state oncekeeper.State) *pb.KeyRecord {
	return &pb.KeyRecord{
		Key:               KeyToProto(r.Key),
		State:             pb.KeyRecord_State(state),
		Etag:              r.Etag(),
		Fingerprint:       r.Fingerprint,
		FingerprintScheme: r.FingerprintScheme,
		FencingToken:      r.Token,
		AttemptNumber:     r.Attempt,
		Holder:            r.Holder,
		Principal:         r.Principal,
		TraceParent:       r.TraceParent,
		CreateTime:        InstantToProto(r.Created),
		LeaseExpireTime:   InstantToProto(r.LeaseEnd),
		SettleTime:        InstantToProto(r.Settled),
		ExpireTime:        InstantToProto(r.Expires),
		Outcome:           OutcomeToProto(r.LastOutcome()),
		Checkpoint:        r.Checkpoint,
		OnLeaseExpiry:     HoldToProto(r.Granted.Hold),
	}
}

// StateFromProto gives zero for a state that this version does not know: such a
// key is busy, never free.
func StateFromProto(p pb.KeyRecord_State) oncekeeper.State {
	if p < pb.KeyRecord_STATE_PENDING || p > pb.KeyRecord_STATE_FAILED {
		return 0
	}
	return oncekeeper.State(p)
}

// HoldToProto gives what follows an unknown outcome.
func HoldToProto(hold bool) pb.LeaseExpiry {
	if hold {
		return pb.LeaseExpiry_LEASE_EXPIRY_HOLD
	}
	return pb.LeaseExpiry_LEASE_EXPIRY_TAKE_OVER
}

// HoldFromProto says whether p asks to hold the key. Unspecified and take over
// are one: the stricter of caller and policy wins, so neither asks for anything.
// ok is false for a value that this version does not know.
func HoldFromProto(p pb.LeaseExpiry) (hold, ok bool) {
	switch p {
	case pb.LeaseExpiry_LEASE_EXPIRY_UNSPECIFIED, pb.LeaseExpiry_LEASE_EXPIRY_TAKE_OVER:
		return false, true
	case pb.LeaseExpiry_LEASE_EXPIRY_HOLD:
		return true, true
	default:
		return false, false
	}
}

// DispositionToProto gives how Fail says s; unspecified, which a server refuses,
// for a settlement that is not Fail's to say.
func DispositionToProto(s oncekeeper.Settlement) pb.FailRequest_Disposition {
	switch s {
	case oncekeeper.SettledRetryable:
		return pb.FailRequest_DISPOSITION_RETRYABLE
	case oncekeeper.SettledFinal:
		return pb.FailRequest_DISPOSITION_FINAL
	case oncekeeper.SettledUnknown:
		return pb.FailRequest_DISPOSITION_UNKNOWN
	default:
		return pb.FailRequest_DISPOSITION_UNSPECIFIED
	}
}

// DispositionFromProto gives ok false for unspecified and for a disposition that
// this version does not know.
func DispositionFromProto(p pb.FailRequest_Disposition) (s oncekeeper.Settlement, ok bool) {
	switch p {
	case pb.FailRequest_DISPOSITION_RETRYABLE:
		return oncekeeper.SettledRetryable, true
	case pb.FailRequest_DISPOSITION_FINAL:
		return oncekeeper.SettledFinal, true
	case pb.FailRequest_DISPOSITION_UNKNOWN:
		return oncekeeper.SettledUnknown, true
	default:
		return oncekeeper.SettledNot, false
	}
}
