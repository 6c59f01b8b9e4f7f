// Package codec turns a record into the bytes that stores keep, and back.
package codec

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	recordv1 "github.com/oncekeeper/oncekeeper/storage/internal/oncekeeper/record/v1"
)

// Append writes rec behind dst. The key is not part of it: every store keeps it
// beside.
func Append(dst []byte, rec *oncekeeper.KeyRecord) ([]byte, error) {
	dst, err := proto.MarshalOptions{}.MarshalAppend(dst, toProto(rec))
	if err != nil {
		return nil, fmt.Errorf("encoding a record: %w", err)
	}
	return dst, nil
}

// Decode reads what Append wrote for key. The record shares nothing with data.
func Decode(key oncekeeper.Key, data []byte) (*oncekeeper.KeyRecord, error) {
	var p recordv1.Record
	if err := proto.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("decoding a record: %w", err)
	}
	return fromProto(key, &p), nil
}

func toProto(r *oncekeeper.KeyRecord) *recordv1.Record {
	return &recordv1.Record{
		State:             uint32(r.State),
		Token:             r.Token,
		Revision:          r.Revision,
		Fingerprint:       r.Fingerprint,
		FingerprintScheme: r.FingerprintScheme,
		AnyFingerprint:    r.AnyFingerprint,
		CallId:            r.CallID,
		Attempt:           r.Attempt,
		Takeover:          r.Takeover,
		Granted: &recordv1.Grant{
			Lease:              r.Granted.Lease.Microseconds(),
			Retention:          r.Granted.Retention.Microseconds(),
			UnsettledRetention: r.Granted.UnsettledRetention.Microseconds(),
			MaxAttempts:        r.Granted.MaxAttempts,
			Hold:               r.Granted.Hold,
		},
		Holder:         r.Holder,
		Principal:      r.Principal,
		TraceParent:    r.TraceParent,
		Checkpoint:     r.Checkpoint,
		Created:        int64(r.Created),
		LeaseEnd:       int64(r.LeaseEnd),
		UnsettledUntil: int64(r.UnsettledUntil),
		Expires:        int64(r.Expires),
		Last:           uint32(r.Last),
		Response:       responseToProto(r.Response),
		Status:         statusToProto(r.Status),
		Origin:         uint32(r.Origin),
		Settled:        int64(r.Settled),
		History:        historyToProto(r.History),
		NotRun:         r.NotRun,
	}
}

func fromProto(key oncekeeper.Key, p *recordv1.Record) *oncekeeper.KeyRecord {
	granted := p.GetGranted()
	return &oncekeeper.KeyRecord{
		Key:               key,
		State:             oncekeeper.StoredState(narrow(p.GetState())),
		Token:             p.GetToken(),
		Revision:          p.GetRevision(),
		Fingerprint:       p.GetFingerprint(),
		FingerprintScheme: p.GetFingerprintScheme(),
		AnyFingerprint:    p.GetAnyFingerprint(),
		CallID:            p.GetCallId(),
		Attempt:           p.GetAttempt(),
		Takeover:          p.GetTakeover(),
		Granted: oncekeeper.Grant{
			Lease:              micros(granted.GetLease()),
			Retention:          micros(granted.GetRetention()),
			UnsettledRetention: micros(granted.GetUnsettledRetention()),
			MaxAttempts:        granted.GetMaxAttempts(),
			Hold:               granted.GetHold(),
		},
		Holder:         p.GetHolder(),
		Principal:      p.GetPrincipal(),
		TraceParent:    p.GetTraceParent(),
		Checkpoint:     p.GetCheckpoint(),
		Created:        oncekeeper.Instant(p.GetCreated()),
		LeaseEnd:       oncekeeper.Instant(p.GetLeaseEnd()),
		UnsettledUntil: oncekeeper.Instant(p.GetUnsettledUntil()),
		Expires:        oncekeeper.Instant(p.GetExpires()),
		Last:           oncekeeper.Settlement(narrow(p.GetLast())),
		Response:       responseFromProto(p.GetResponse()),
		Status:         statusFromProto(p.GetStatus()),
		Origin:         oncekeeper.Origin(narrow(p.GetOrigin())),
		Settled:        oncekeeper.Instant(p.GetSettled()),
		History:        historyFromProto(p.GetHistory()),
		NotRun:         p.GetNotRun(),
	}
}

func responseToProto(r *oncekeeper.Response) *recordv1.Response {
	if r == nil {
		return nil
	}
	p := &recordv1.Response{
		Body:        r.Body,
		ContentType: r.ContentType,
		Omitted:     r.Omitted,
		StatusCode:  r.StatusCode,
		Resource:    r.Resource,
	}
	for _, m := range r.Metadata {
		p.Metadata = append(p.Metadata, &recordv1.MetadataEntry{Kind: uint32(m.Kind), Name: m.Name, Value: m.Value})
	}
	return p
}

func responseFromProto(p *recordv1.Response) *oncekeeper.Response {
	if p == nil {
		return nil
	}
	r := &oncekeeper.Response{
		Body:        p.GetBody(),
		ContentType: p.GetContentType(),
		Omitted:     p.GetOmitted(),
		StatusCode:  p.GetStatusCode(),
		Resource:    p.GetResource(),
	}
	for _, m := range p.GetMetadata() {
		r.Metadata = append(r.Metadata, oncekeeper.MetadataEntry{
			Kind: oncekeeper.MetadataKind(narrow(m.GetKind())), Name: m.GetName(), Value: m.GetValue(),
		})
	}
	return r
}

func statusToProto(s *oncekeeper.Status) *recordv1.Status {
	if s == nil {
		return nil
	}
	return &recordv1.Status{Code: s.Code, Message: s.Message, Details: s.Details}
}

func statusFromProto(p *recordv1.Status) *oncekeeper.Status {
	if p == nil {
		return nil
	}
	return &oncekeeper.Status{Code: p.GetCode(), Message: p.GetMessage(), Details: p.GetDetails()}
}

// micros keeps a length of time that no Duration holds from passing for another,
// below zero perhaps.
func micros(us int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Microsecond)
	return time.Duration(max(-most, min(us, most))) * time.Microsecond
}

// narrow keeps a value that does not fit from passing for one that is known.
func narrow(v uint32) uint8 { return uint8(min(v, 255)) }
