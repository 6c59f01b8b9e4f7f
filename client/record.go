package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// Record is what is known of a key. Moments are of the store's clock; zero: none.
type Record struct {
	Key oncekeeper.Key
	// State as it was read; 0 for one that this version does not know, which is
	// busy and never free.
	State oncekeeper.State
	// Etag changes with every change of the record.
	Etag              string
	Fingerprint       []byte
	FingerprintScheme string
	Token             int64
	Number            int32
	Holder            string
	// TraceParent is the W3C traceparent of the span in which the last attempt was
	// begun; empty where it named none.
	TraceParent string
	Created     oncekeeper.Instant
	LeaseEnd    oncekeeper.Instant
	Settled     oncekeeper.Instant
	Expires     oncekeeper.Instant
	// Outcome of a completed or failed record; otherwise what the last attempt's
	// holder said, to be read only, or nil.
	Outcome    *oncekeeper.Outcome
	Checkpoint []byte
	// Hold: an attempt with no known outcome keeps the key until it is resolved.
	Hold bool
	// History is what the key went through: its last attempts, the present one
	// included, and what operators did, oldest first. For people to read.
	History []oncekeeper.HistoryEntry
}

// Get reads a record and changes nothing, retrying within ctx. Errors are
// oncekeeper.ErrKeyNotFound, ErrInvalidRequest, ErrUnauthenticated,
// ErrPermissionDenied, this package's ErrUnavailable, or ctx's cause.
func (c *Client) Get(ctx context.Context, key oncekeeper.Key) (*Record, error) {
	if err := cannotTravel(key, ""); err != nil {
		return nil, err
	}
	var resp *pb.GetResponse
	msg := &pb.GetRequest{Key: wire.KeyToProto(key)}
	_, err := c.call(ctx, callKind{name: "get"}, func(ctx context.Context, opts ...grpc.CallOption) (err error) {
		resp, err = c.service.Get(ctx, msg, opts...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return recordFromProto(resp.GetRecord()), nil
}

func recordFromProto(p *pb.KeyRecord) *Record {
	hold, known := wire.HoldFromProto(p.GetOnLeaseExpiry())
	return &Record{
		Key:               wire.KeyFromProto(p.GetKey()),
		State:             wire.StateFromProto(p.GetState()),
		Etag:              p.GetEtag(),
		Fingerprint:       p.GetFingerprint(),
		FingerprintScheme: p.GetFingerprintScheme(),
		Token:             p.GetFencingToken(),
		Number:            p.GetAttemptNumber(),
		Holder:            p.GetHolder(),
		TraceParent:       p.GetTraceParent(),
		Created:           toldInstant(p.GetCreateTime()),
		LeaseEnd:          toldInstant(p.GetLeaseExpireTime()),
		Settled:           toldInstant(p.GetSettleTime()),
		Expires:           toldInstant(p.GetExpireTime()),
		Outcome:           wire.OutcomeFromProto(p.GetOutcome()),
		Checkpoint:        p.GetCheckpoint(),
		Hold:              hold || !known,
		History:           wire.HistoryFromProto(p.GetHistory()),
	}
}
