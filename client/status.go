package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// StatusOf gives err as the status that is kept of it: code, message and details
// of its gRPC status where it has one; else CANCELLED or DEADLINE_EXCEEDED for a
// context's error, and UNKNOWN with its text for any other. The code is never OK,
// and the message is cut to oncekeeper.MaxStatusMessageBytes between runes.
// StatusOf(nil) is nil.
func StatusOf(err error) *oncekeeper.Status {
	if err == nil {
		return nil
	}
	st := &oncekeeper.Status{Code: int32(codes.Unknown), Message: err.Error()}
	var carrier interface{ GRPCStatus() *status.Status }
	switch {
	case errors.As(err, &carrier) && carrier.GRPCStatus() != nil:
		p := carrier.GRPCStatus().Proto()
		if p.GetCode() > 0 && p.GetCode() <= int32(codes.Unauthenticated) {
			st.Code = p.GetCode()
		}
		st.Message = p.GetMessage()
		for _, detail := range p.GetDetails() {
			// An Any whose type URL is not UTF-8 cannot travel, and never did.
			if raw, err := proto.Marshal(detail); err == nil {
				st.Details = append(st.Details, raw)
			}
		}
	case errors.Is(err, context.Canceled):
		st.Code = int32(codes.Canceled)
	case errors.Is(err, context.DeadlineExceeded):
		st.Code = int32(codes.DeadlineExceeded)
	}
	st.Message = cutText(st.Message, oncekeeper.MaxStatusMessageBytes)
	return st
}

// GRPCStatus gives a stored status to gRPC, its details as they were. A detail
// that is no google.protobuf.Any is left out.
func GRPCStatus(s *oncekeeper.Status) *status.Status {
	p := &spb.Status{Code: s.Code, Message: s.Message}
	if p.GetCode() == int32(codes.OK) {
		p.Code = int32(codes.Unknown)
	}
	for _, raw := range s.Details {
		detail := &anypb.Any{}
		if proto.Unmarshal(raw, detail) == nil {
			p.Details = append(p.Details, detail)
		}
	}
	return status.FromProto(p)
}

// endedBy gives how an attempt ended whose function returned err: as Final and
// NotApplied marked it, but that an error of this service, be it a nested one's
// or one's own, is never kept as the operation's answer.
func endedBy(err error) Ended {
	as := oncekeeper.SettlementOf(err)
	if as == oncekeeper.SettledFinal && OfService(err) {
		as = oncekeeper.SettledUnknown
	}
	return Ended{As: as, Status: StatusOf(err)}
}

// OfService says whether an error of Oncekeeper is anywhere in err: one of its
// sentinels or of this package's, or a gRPC status with its ErrorInfo, which is
// how a guarded service says that a call is in progress or unresolved. Such an
// error passes, and is never an operation's final answer.
func OfService(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := oncekeeper.SentinelOf(err); ok {
		return true
	}
	for _, own := range []error{ErrUnavailable, ErrLeaseLost, ErrRunTime, ErrNested, ErrUndecodable} {
		if errors.Is(err, own) {
			return true
		}
	}
	if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		_, ok := oncekeeper.SentinelOf(wire.FromError(err, nil))
		return ok
	}
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself, each branch of it
	case interface{ Unwrap() error }:
		return OfService(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), OfService)
	default:
		return false
	}
}

// cutText gives s as UTF-8 of at most limit bytes, cut between runes.
func cutText(s string, limit int) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
