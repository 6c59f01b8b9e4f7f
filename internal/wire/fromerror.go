package wire

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// Error is an error of this service as it came over the wire. It unwraps to its
// sentinel, and gives the status that it came as.
type Error struct {
	sentinel *oncekeeper.Error
	st       *status.Status
	// Operation is of the key that the error is about, which tells a nested
	// service's error from one's own; empty where it did not travel.
	Operation string
	// RetryDelay is when to ask again; 0 where nothing was said.
	RetryDelay time.Duration
	// Violations names the fields of an invalid request.
	Violations []FieldViolation
	// Metadata is the ErrorInfo's, the operation included.
	Metadata map[string]string
}

// Error gives the status's message, which needs no prefix.
func (e *Error) Error() string {
	if e.st.Message() == "" {
		return e.sentinel.Error()
	}
	return e.st.Message()
}

// Unwrap gives the sentinel.
func (e *Error) Unwrap() error { return e.sentinel }

// GRPCStatus gives the status as it came.
func (e *Error) GRPCStatus() *status.Status { return e.st }

// FromError turns err, of a gRPC call whose trailer may be given, into an *Error
// where it is one of this service's: by its ErrorInfo, or where the details were
// stripped on the way, by ReasonTrailer. Any other error, an unknown reason
// included, is given as it came.
func FromError(err error, trailer metadata.MD) error {
	var already *Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	st, ok := status.FromError(err)
	if !ok || st.Code() == codes.OK {
		return err
	}
	if e := fromDetails(st); e != nil {
		return e
	}
	for _, reason := range trailer.Get(ReasonTrailer) {
		if s, ok := oncekeeper.SentinelFor(reason); ok {
			return &Error{sentinel: s, st: st}
		}
	}
	return err
}

func fromDetails(st *status.Status) *Error {
	e := &Error{st: st}
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() != oncekeeper.ErrorDomain || e.sentinel != nil {
				continue
			}
			if s, ok := oncekeeper.SentinelFor(d.GetReason()); ok {
				e.sentinel, e.Operation, e.Metadata = s, d.GetMetadata()[operationKey], d.GetMetadata()
			}
		case *errdetails.RetryInfo:
			if delay, err := DurationFromProto(d.GetRetryDelay()); err == nil && delay > 0 {
				e.RetryDelay = delay
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Violations = append(e.Violations, FieldViolation{Field: v.GetField(), Description: v.GetDescription()})
			}
		}
	}
	if e.sentinel == nil {
		return nil
	}
	return e
}

// BatchErrorFromProto gives an item's error, about a key of operation: an *Error
// where the reason is known, else a plain status error.
func BatchErrorFromProto(p *pb.BatchError, operation string) error {
	code := codes.Code(p.GetCode())
	if code == codes.OK {
		code = codes.Unknown
	}
	st := status.New(code, p.GetMessage())
	reason := strings.TrimPrefix(p.GetReason().String(), reasonPrefix)
	if s, ok := oncekeeper.SentinelFor(reason); ok {
		return &Error{sentinel: s, st: st, Operation: operation}
	}
	return st.Err()
}
