package wire

import (
	"maps"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// ReasonTrailer is the ASCII trailer that repeats an error's reason, for callers
// behind a proxy that drops status details.
const ReasonTrailer = "oncekeeper-reason"

// operationKey is the ErrorInfo metadata that names the operation.
const operationKey = "operation"

// reasonCodes is the one table from ErrorReason to gRPC code.
var reasonCodes = map[pb.ErrorReason]codes.Code{
	pb.ErrorReason_ERROR_REASON_INVALID_REQUEST:      codes.InvalidArgument,
	pb.ErrorReason_ERROR_REASON_FINGERPRINT_MISMATCH: codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_FENCED:               codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_ALREADY_SETTLED:      codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_UNRESOLVED:           codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_KEY_NOT_FOUND:        codes.NotFound,
	pb.ErrorReason_ERROR_REASON_OVERLOADED:           codes.ResourceExhausted,
	pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE:    codes.Unavailable,
	pb.ErrorReason_ERROR_REASON_IN_PROGRESS:          codes.Aborted,
	pb.ErrorReason_ERROR_REASON_RESPONSE_NOT_KEPT:    codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_UNAUTHENTICATED:      codes.Unauthenticated,
	pb.ErrorReason_ERROR_REASON_PERMISSION_DENIED:    codes.PermissionDenied,
	pb.ErrorReason_ERROR_REASON_ATTEMPTS_EXHAUSTED:   codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_ASK_ALONE:            codes.ResourceExhausted,
	pb.ErrorReason_ERROR_REASON_ETAG_MISMATCH:        codes.Aborted,
}

// reasonPrefix is what the enum's names have and the reasons have not.
const reasonPrefix = "ERROR_REASON_"

// ReasonOf gives the sentinel's ErrorReason; unspecified for one that the
// contract does not know.
func ReasonOf(s *oncekeeper.Error) pb.ErrorReason {
	return pb.ErrorReason(pb.ErrorReason_value[reasonPrefix+s.Reason()])
}

// CodeOf gives the sentinel's gRPC code; Internal for one that the contract does
// not know.
func CodeOf(s *oncekeeper.Error) codes.Code {
	if code, ok := reasonCodes[ReasonOf(s)]; ok {
		return code
	}
	return codes.Internal
}

// FieldViolation is one field of a request that is outside its limits. Neither
// part holds key material.
type FieldViolation struct {
	// Field is its path in the request message ("key.id").
	Field string
	// Description says which limit.
	Description string
}

// Details is what travels with a reason.
type Details struct {
	// Violations become google.rpc.BadRequest, and the message names the first.
	Violations []FieldViolation
	// RetryDelay becomes google.rpc.RetryInfo unless zero.
	RetryDelay time.Duration
	// Metadata joins the ErrorInfo's, where the operation is.
	Metadata map[string]string
}

// Status gives the status of s: its code and text, ErrorInfo with domain, reason
// and, unless empty, the key's operation, and the details given. The trailer
// ReasonTrailer is the caller's to set, to s.Reason().
func Status(s *oncekeeper.Error, operation string, d Details) *status.Status {
	info := &errdetails.ErrorInfo{Reason: s.Reason(), Domain: oncekeeper.ErrorDomain, Metadata: maps.Clone(d.Metadata)}
	if operation != "" {
		if info.Metadata == nil {
			info.Metadata = map[string]string{}
		}
		info.Metadata[operationKey] = operation
	}
	details := []protoadapt.MessageV1{info}
	if len(d.Violations) > 0 {
		bad := &errdetails.BadRequest{}
		for _, v := range d.Violations {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Field: v.Field, Description: v.Description,
			})
		}
		details = append(details, bad)
	}
	if d.RetryDelay > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: DurationToProto(d.RetryDelay)})
	}
	st, err := status.New(CodeOf(s), message(s, d)).WithDetails(details...)
	if err != nil {
		// These messages always marshal unless a field is not UTF-8; the code and
		// the trailer still tell.
		return status.New(CodeOf(s), s.Error())
	}
	return st
}

func message(s *oncekeeper.Error, d Details) string {
	if len(d.Violations) == 0 {
		return s.Error()
	}
	return s.Error() + ": " + d.Violations[0].Field + ": " + d.Violations[0].Description
}

// BatchErrorToProto gives s as one item's result.
func BatchErrorToProto(s *oncekeeper.Error, d Details) *pb.BatchError {
	return &pb.BatchError{Code: int32(CodeOf(s)), Message: message(s, d), Reason: ReasonOf(s)}
}
