package wire_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// wantCodes is what the contract's comments on ErrorReason say.
var wantCodes = map[string]codes.Code{
	"INVALID_REQUEST":      codes.InvalidArgument,
	"FINGERPRINT_MISMATCH": codes.FailedPrecondition,
	"FENCED":               codes.FailedPrecondition,
	"ALREADY_SETTLED":      codes.FailedPrecondition,
	"UNRESOLVED":           codes.FailedPrecondition,
	"KEY_NOT_FOUND":        codes.NotFound,
	"OVERLOADED":           codes.ResourceExhausted,
	"STORE_UNAVAILABLE":    codes.Unavailable,
	"IN_PROGRESS":          codes.Aborted,
	"RESPONSE_NOT_KEPT":    codes.FailedPrecondition,
	"UNAUTHENTICATED":      codes.Unauthenticated,
	"PERMISSION_DENIED":    codes.PermissionDenied,
	"ATTEMPTS_EXHAUSTED":   codes.FailedPrecondition,
	"ASK_ALONE":            codes.ResourceExhausted,
	"ETAG_MISMATCH":        codes.Aborted,
}

// reasons walks the contract, so that a new reason without a sentinel, a code or
// a line above fails here.
func reasons(t *testing.T, f func(t *testing.T, s *oncekeeper.Error, reason pb.ErrorReason)) {
	t.Helper()
	walked := 0
	for n, name := range pb.ErrorReason_name {
		if n == 0 {
			continue
		}
		walked++
		t.Run(name, func(t *testing.T) {
			s, ok := oncekeeper.SentinelFor(strings.TrimPrefix(name, "ERROR_REASON_"))
			if !ok {
				t.Fatalf("%s has no sentinel in the root package", name)
			}
			f(t, s, pb.ErrorReason(n))
		})
	}
	if walked != len(wantCodes) {
		t.Errorf("the contract has %d reasons, this test knows %d", walked, len(wantCodes))
	}
}

func TestEveryReasonCrossesTheWireAndBack(t *testing.T) {
	reasons(t, func(t *testing.T, s *oncekeeper.Error, reason pb.ErrorReason) {
		details := wire.Details{
			Violations: []wire.FieldViolation{{Field: "key.id", Description: "is empty"}, {Field: "lease", Description: "is negative"}},
			RetryDelay: 250 * time.Millisecond,
			Metadata:   map[string]string{"resource": "charges/1"},
		}
		st := wire.Status(s, "orders.v1.Orders/Charge", details)
		if want := wantCodes[s.Reason()]; st.Code() != want {
			t.Errorf("code = %v, want %v", st.Code(), want)
		}
		if wire.ReasonOf(s) != reason {
			t.Errorf("ReasonOf = %v, want %v", wire.ReasonOf(s), reason)
		}
		if !strings.Contains(st.Message(), s.Text()) || !strings.Contains(st.Message(), "key.id: is empty") {
			t.Errorf("message %q says neither what nor where", st.Message())
		}

		err := wire.FromError(fmt.Errorf("begin: %w", st.Err()), nil)
		var got *wire.Error
		if !errors.As(err, &got) || !errors.Is(err, s) {
			t.Fatalf("FromError gave %#v, which is not %v", err, s)
		}
		if got.Operation != "orders.v1.Orders/Charge" || got.RetryDelay != details.RetryDelay || !reflect.DeepEqual(got.Violations, details.Violations) {
			t.Errorf("details came back as %+v", got)
		}
		if len(got.Metadata) != 2 || got.Metadata["resource"] != "charges/1" || len(details.Metadata) != 1 {
			t.Errorf("metadata came back as %v, and what was given is %v", got.Metadata, details.Metadata)
		}
		if back := status.Code(err); back != st.Code() {
			t.Errorf("status.Code = %v, want %v", back, st.Code())
		}
		if again := wire.FromError(fmt.Errorf("once more: %w", err), metadata.Pairs(wire.ReasonTrailer, "FENCED")); !errors.Is(again, s) {
			t.Errorf("FromError of a turned error gave %v", again)
		}
	})
}

func TestATrailerStandsInForStrippedDetails(t *testing.T) {
	reasons(t, func(t *testing.T, s *oncekeeper.Error, _ pb.ErrorReason) {
		bare := status.Error(wire.CodeOf(s), "upstream said no")
		err := wire.FromError(bare, metadata.Pairs(wire.ReasonTrailer, s.Reason()))
		if !errors.Is(err, s) || status.Code(err) != wire.CodeOf(s) {
			t.Errorf("FromError = %v with code %v, want %v with %v", err, status.Code(err), s, wire.CodeOf(s))
		}
	})
}

func TestDetailsWinOverTheTrailer(t *testing.T) {
	fenced, _ := oncekeeper.SentinelOf(oncekeeper.ErrFenced)
	err := wire.FromError(wire.Status(fenced, "op", wire.Details{}).Err(), metadata.Pairs(wire.ReasonTrailer, "OVERLOADED"))
	if !errors.Is(err, oncekeeper.ErrFenced) || errors.Is(err, oncekeeper.ErrOverloaded) {
		t.Errorf("FromError = %v, want the reason of the details", err)
	}
}

func TestTheFirstOfTwoReasonsIsTaken(t *testing.T) {
	st, err := status.New(codes.FailedPrecondition, "x").WithDetails(
		&errdetails.ErrorInfo{Domain: "example.com", Reason: "OVERLOADED"},
		&errdetails.ErrorInfo{Domain: "oncekeeper", Reason: "FENCED"},
		&errdetails.ErrorInfo{Domain: "oncekeeper", Reason: "OVERLOADED"},
	)
	if err != nil {
		t.Fatal(err)
	}
	if got := wire.FromError(st.Err(), nil); !errors.Is(got, oncekeeper.ErrFenced) {
		t.Errorf("FromError = %v, want the first of ours", got)
	}
}

func TestEveryReasonCrossesInABatch(t *testing.T) {
	reasons(t, func(t *testing.T, s *oncekeeper.Error, reason pb.ErrorReason) {
		p := wire.BatchErrorToProto(s, wire.Details{})
		if p.GetReason() != reason || codes.Code(p.GetCode()) != wantCodes[s.Reason()] || p.GetMessage() != s.Error() {
			t.Errorf("BatchErrorToProto = %v", p)
		}
		err := wire.BatchErrorFromProto(p, "op")
		var got *wire.Error
		if !errors.As(err, &got) || !errors.Is(err, s) || got.Operation != "op" || status.Code(err) != wantCodes[s.Reason()] {
			t.Errorf("BatchErrorFromProto = %#v, want %v", err, s)
		}
	})
}

func TestWhatIsNotThisServicesComesAsItCame(t *testing.T) {
	foreign := func(domain, reason string) error {
		st, err := status.New(codes.FailedPrecondition, "no").WithDetails(&errdetails.ErrorInfo{Domain: domain, Reason: reason})
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	for name, err := range map[string]error{
		"another domain's reason": foreign("example.com", "FENCED"),
		"an unknown reason":       foreign("oncekeeper", "FROM_A_NEWER_VERSION"),
		"a plain status":          status.Error(codes.Unavailable, "connection refused"),
		"no status at all":        context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			if got := wire.FromError(err, metadata.Pairs("other", "FENCED")); got != err {
				t.Errorf("FromError = %#v, want it as it came", got)
			}
		})
	}
	if got := wire.FromError(nil, metadata.Pairs(wire.ReasonTrailer, "FENCED")); got != nil {
		t.Errorf("FromError(nil) = %v", got)
	}
	unknown := status.Error(codes.Unavailable, "x")
	if got := wire.FromError(unknown, metadata.Pairs(wire.ReasonTrailer, "FROM_A_NEWER_VERSION")); got != unknown {
		t.Errorf("FromError with an unknown trailer reason = %#v", got)
	}
	item := wire.BatchErrorFromProto(&pb.BatchError{Code: int32(codes.Aborted), Message: "m", Reason: 999}, "op")
	if _, ours := oncekeeper.SentinelOf(item); ours || status.Code(item) != codes.Aborted {
		t.Errorf("BatchErrorFromProto of an unknown reason = %v", item)
	}
	if item := wire.BatchErrorFromProto(&pb.BatchError{}, "op"); status.Code(item) != codes.Unknown {
		t.Errorf("an empty BatchError = %v, want an error all the same", item)
	}
}

func TestAnOperationThatIsNotUTF8DoesNotHideTheCode(t *testing.T) {
	fenced, _ := oncekeeper.SentinelOf(oncekeeper.ErrFenced)
	if st := wire.Status(fenced, "\xff", wire.Details{}); st.Code() != codes.FailedPrecondition {
		t.Errorf("Status = %v", st)
	}
}
