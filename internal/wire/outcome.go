package wire

import (
	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// OutcomeToProto gives nil for nil.
func OutcomeToProto(o *oncekeeper.Outcome) *pb.Outcome {
	if o == nil {
		return nil
	}
	p := &pb.Outcome{
		Origin:        pb.Outcome_Origin(o.Origin),
		FencingToken:  o.Token,
		AttemptNumber: o.Attempt,
		SettleTime:    InstantToProto(o.Settled),
		ExpireTime:    InstantToProto(o.Expires),
		TraceParent:   o.TraceParent,
	}
	switch {
	case o.Response != nil:
		p.Result = &pb.Outcome_Response{Response: ResponseToProto(o.Response)}
	case o.Status != nil:
		p.Result = &pb.Outcome_Status{Status: StatusToProto(o.Status)}
	}
	return p
}

// OutcomeFromProto gives nil for nil. Response and Status are both nil where the
// result is one that this version does not know.
func OutcomeFromProto(p *pb.Outcome) *oncekeeper.Outcome {
	if p == nil {
		return nil
	}
	return &oncekeeper.Outcome{
		Response:    ResponseFromProto(p.GetResponse()),
		Status:      StatusFromProto(p.GetStatus()),
		Origin:      originFromProto(p.GetOrigin()),
		Token:       p.GetFencingToken(),
		Attempt:     p.GetAttemptNumber(),
		Settled:     readInstant(p.GetSettleTime()),
		Expires:     readInstant(p.GetExpireTime()),
		TraceParent: p.GetTraceParent(),
	}
}

// originFromProto gives zero for an origin that this version does not know.
func originFromProto(p pb.Outcome_Origin) oncekeeper.Origin {
	switch p {
	case pb.Outcome_ORIGIN_ATTEMPT:
		return oncekeeper.OriginAttempt
	case pb.Outcome_ORIGIN_OPERATOR:
		return oncekeeper.OriginOperator
	case pb.Outcome_ORIGIN_EXHAUSTED:
		return oncekeeper.OriginExhausted
	default:
		return 0
	}
}

// ResponseToProto gives nil for nil.
func ResponseToProto(r *oncekeeper.Response) *pb.StoredResponse {
	if r == nil {
		return nil
	}
	p := &pb.StoredResponse{
		Body:        r.Body,
		ContentType: r.ContentType,
		Omitted:     r.Omitted,
		StatusCode:  r.StatusCode,
		Resource:    r.Resource,
	}
	for _, m := range r.Metadata {
		p.Metadata = append(p.Metadata, &pb.MetadataEntry{
			Kind: pb.MetadataEntry_Kind(m.Kind), Name: m.Name, Value: m.Value,
		})
	}
	return p
}

// ResponseFromProto gives nil for nil. A metadata entry of a kind that this
// version does not know has kind zero.
func ResponseFromProto(p *pb.StoredResponse) *oncekeeper.Response {
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
			Kind: metadataKindFromProto(m.GetKind()), Name: m.GetName(), Value: m.GetValue(),
		})
	}
	return r
}

func metadataKindFromProto(p pb.MetadataEntry_Kind) oncekeeper.MetadataKind {
	switch p {
	case pb.MetadataEntry_KIND_HEADER:
		return oncekeeper.MetadataHeader
	case pb.MetadataEntry_KIND_TRAILER:
		return oncekeeper.MetadataTrailer
	default:
		return 0
	}
}

// StatusToProto gives nil for nil.
func StatusToProto(s *oncekeeper.Status) *pb.StoredStatus {
	if s == nil {
		return nil
	}
	return &pb.StoredStatus{Code: s.Code, Message: s.Message, Details: s.Details}
}

// StatusFromProto gives nil for nil.
func StatusFromProto(p *pb.StoredStatus) *oncekeeper.Status {
	if p == nil {
		return nil
	}
	return &oncekeeper.Status{Code: p.GetCode(), Message: p.GetMessage(), Details: p.GetDetails()}
}
