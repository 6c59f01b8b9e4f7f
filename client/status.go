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
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// StatusOf gives err as the status that is kept of it: code, message and details
// of its gRPC status where it has one; else CANCELLED or DEADLINE_EXCEEDED for a
// context's error, and UNKNOWN with its text for any other. Of errors that were
// joined, the first stands for all where all have its code; else the code is
// UNKNOWN, with the whole text and no details. The code is never OK, the message
// is cut to oncekeeper.MaxStatusMessageBytes between runes, and more than
// oncekeeper.MaxStatusDetails details are left out. StatusOf(nil) is nil.
func StatusOf(err error) *oncekeeper.Status {
	if err == nil {
		return nil
	}
	code, carried := standsFor(err)
	st := &oncekeeper.Status{Code: int32(code), Message: err.Error()}
	if carried != nil {
		st.Message = carried.Message()
		st.Details = details(carried)
	}
	st.Message = cutText(st.Message, oncekeeper.MaxStatusMessageBytes)
	return st
}

// standsFor gives the code of err, and the gRPC status that stands for all of it;
// nil where its own text does.
func standsFor(err error) (codes.Code, *status.Status) {
	if carrier, ok := err.(interface{ GRPCStatus() *status.Status }); ok && carrier.GRPCStatus() != nil {
		st := carrier.GRPCStatus()
		if st.Code() == codes.OK || st.Code() > codes.Unauthenticated {
			return codes.Unknown, st
		}
		return st.Code(), st
	}
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself, each branch of it
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return standsFor(inner)
		}
	case interface{ Unwrap() []error }:
		return standsForAll(e.Unwrap())
	}
	switch {
	case errors.Is(err, context.Canceled):
		return codes.Canceled, nil
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded, nil
	default:
		return codes.Unknown, nil
	}
}

// standsForAll gives the first of errs where all have its code. Where they have
// not, none of them says what became of the whole: what was not found may be what
// the one joined to it could not undo.
func standsForAll(errs []error) (codes.Code, *status.Status) {
	var code codes.Code
	var first *status.Status
	for i, err := range errs {
		c, st := standsFor(err)
		if i == 0 {
			code, first = c, st
		}
		if c != code {
			return codes.Unknown, nil
		}
	}
	if code == codes.OK || code == codes.Unknown && len(errs) > 1 {
		return codes.Unknown, nil
	}
	return code, first
}

// details gives a status's details as they are kept: none where there are more
// than anyone keeps.
func details(st *status.Status) [][]byte {
	anys := st.Proto().GetDetails()
	if len(anys) > oncekeeper.MaxStatusDetails {
		return nil
	}
	var kept [][]byte
	for _, detail := range anys {
		// An Any whose type URL is not UTF-8 cannot travel, and never did.
		if raw, err := proto.Marshal(detail); err == nil {
			kept = append(kept, raw)
		}
	}
	return kept
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
// NotApplied marked it, or else RolledBack, but that an error of this service, be it
// a nested one's or one's own, is never kept as the operation's answer.
func endedBy(err error) Ended {
	as := oncekeeper.SettlementOf(err)
	if as == oncekeeper.SettledUnknown && oncekeeper.IsRolledBack(err) {
		as = oncekeeper.SettledRetryable
	}
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
	for _, own := range []error{ErrUnavailable, ErrLeaseLost, ErrRunTime, ErrNested, ErrUndecodable, receipt.ErrNoTable, receipt.ErrInDoubt, receipt.ErrTwice} {
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
