package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

type statusError struct{ st *status.Status }

func (e statusError) Error() string              { return "status error" }
func (e statusError) GRPCStatus() *status.Status { return e.st }

func TestAnErrorIsKeptAsAStatusThatIsNeverOK(t *testing.T) {
	for name, tc := range map[string]struct {
		err     error
		code    codes.Code
		message string
	}{
		"plain":                {errors.New("boom"), codes.Unknown, "boom"},
		"status":               {status.Error(codes.NotFound, "gone"), codes.NotFound, "gone"},
		"wrapped status":       {fmt.Errorf("x: %w", status.Error(codes.NotFound, "gone")), codes.NotFound, "gone"},
		"cancelled":            {fmt.Errorf("x: %w", context.Canceled), codes.Canceled, "x: context canceled"},
		"deadline":             {context.DeadlineExceeded, codes.DeadlineExceeded, "context deadline exceeded"},
		"a status of OK":       {statusError{status.New(codes.OK, "fine")}, codes.Unknown, "fine"},
		"no status":            {statusError{nil}, codes.Unknown, "status error"},
		"a code of its own":    {statusError{status.FromProto(&spb.Status{Code: 99, Message: "m"})}, codes.Unknown, "m"},
		"joined with another":  {errors.Join(status.Error(codes.NotFound, "gone"), errors.New("rollback failed")), codes.Unknown, "rpc error: code = NotFound desc = gone\nrollback failed"},
		"two of two kinds":     {fmt.Errorf("%w, %w", status.Error(codes.NotFound, "a"), status.Error(codes.Aborted, "b")), codes.Unknown, "rpc error: code = NotFound desc = a, rpc error: code = Aborted desc = b"},
		"a join in a wrapping": {fmt.Errorf("x: %w", errors.Join(errors.New("a"), status.Error(codes.NotFound, "b"))), codes.Unknown, "x: a\nrpc error: code = NotFound desc = b"},
		"two of one kind":      {errors.Join(status.Error(codes.NotFound, "a"), status.Error(codes.NotFound, "b")), codes.NotFound, "a"},
		"two that say nothing": {errors.Join(status.Error(codes.Unknown, "a"), errors.New("b")), codes.Unknown, "rpc error: code = Unknown desc = a\nb"},
		"both cancelled":       {errors.Join(context.Canceled, context.Canceled), codes.Canceled, "context canceled\ncontext canceled"},
		"a join of one":        {errors.Join(status.Error(codes.NotFound, "gone")), codes.NotFound, "gone"},
		"marked in a join":     {errors.Join(oncekeeper.Final(status.Error(codes.NotFound, "gone"))), codes.NotFound, "gone"},
		"no UTF-8":             {errors.New("a\xffb"), codes.Unknown, "a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) {
			got := client.StatusOf(tc.err)
			if codes.Code(got.Code) != tc.code || got.Message != tc.message {
				t.Errorf("StatusOf = %v %q, want %v %q", codes.Code(got.Code), got.Message, tc.code, tc.message)
			}
		})
	}
	if client.StatusOf(nil) != nil {
		t.Error("StatusOf(nil) is a status")
	}
	if got := client.GRPCStatus(&oncekeeper.Status{}).Code(); got != codes.Unknown {
		t.Errorf("a stored code of 0 is given as %v", got)
	}
}

func TestALongMessageIsCutBetweenRunes(t *testing.T) {
	for shift := range 4 {
		long := strings.Repeat("x", shift) + strings.Repeat("€", oncekeeper.MaxStatusMessageBytes)
		got := client.StatusOf(errors.New(long)).Message
		if len(got) > oncekeeper.MaxStatusMessageBytes || len(got) < oncekeeper.MaxStatusMessageBytes-2 || !utf8.ValidString(got) || !strings.HasPrefix(long, got) {
			t.Errorf("shifted by %d, it is cut to %d bytes, valid %v", shift, len(got), utf8.ValidString(got))
		}
	}
	exact := strings.Repeat("x", oncekeeper.MaxStatusMessageBytes)
	if got := client.StatusOf(errors.New(exact)).Message; got != exact {
		t.Errorf("a message at the limit is cut to %d bytes", len(got))
	}
}
