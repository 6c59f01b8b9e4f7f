package answers

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func judged(req, res any, err error) (verdicts, ids []string) {
	Judge(req, res, err, func(key *pb.Key, v Verdict) {
		verdicts, ids = append(verdicts, v.String()), append(ids, key.GetId())
	})
	return verdicts, ids
}

func outcome(of *pb.Outcome) *pb.BeginResponse {
	return &pb.BeginResponse{Result: &pb.BeginResponse_Outcome{Outcome: of}}
}

func grant(of *pb.Grant) *pb.BeginResponse {
	return &pb.BeginResponse{Result: &pb.BeginResponse_Grant{Grant: of}}
}

func failing(err error) error {
	s, _ := oncekeeper.SentinelOf(err)
	return wire.Status(s, "pay", wire.Details{}).Err()
}

func TestACallsVerdictIsReadFromItsAnswer(t *testing.T) {
	key := &pb.Key{Tenant: "acme", Operation: "pay", Id: "1"}
	begin := &pb.BeginRequest{Key: key}
	for want, tc := range map[string]struct {
		req, res any
		err      error
	}{
		"granted":         {req: begin, res: grant(&pb.Grant{AttemptNumber: 2})},
		"takeover":        {req: begin, res: grant(&pb.Grant{Takeover: true})},
		"replayed":        {req: begin, res: outcome(&pb.Outcome{Origin: pb.Outcome_ORIGIN_OPERATOR})},
		"exhausted":       {req: begin, res: outcome(&pb.Outcome{Origin: pb.Outcome_ORIGIN_EXHAUSTED})},
		"unresolved":      {req: begin, res: &pb.BeginResponse{Result: &pb.BeginResponse_Unresolved{Unresolved: &pb.Unresolved{}}}},
		"in_progress":     {req: begin, res: &pb.BeginResponse{Result: &pb.BeginResponse_InProgress{InProgress: &pb.InProgress{}}}},
		"renewed":         {req: &pb.RenewRequest{Key: key}, res: &pb.RenewResponse{}},
		"completed":       {req: &pb.CompleteRequest{Key: key}, res: &pb.CompleteResponse{}},
		"failed":          {req: &pb.FailRequest{Key: key, Disposition: pb.FailRequest_DISPOSITION_FINAL}, res: &pb.FailResponse{}},
		"released":        {req: &pb.FailRequest{Key: key, Disposition: pb.FailRequest_DISPOSITION_RETRYABLE}, res: &pb.FailResponse{}},
		"unknown":         {req: &pb.FailRequest{Key: key, Disposition: pb.FailRequest_DISPOSITION_UNKNOWN}, res: &pb.FailResponse{}},
		"done":            {req: &pb.GetRequest{Key: key}, res: &pb.GetResponse{}},
		"mismatch":        {req: begin, err: failing(oncekeeper.ErrFingerprintMismatch)},
		"fenced":          {req: &pb.FailRequest{Key: key, Disposition: pb.FailRequest_DISPOSITION_FINAL}, err: failing(oncekeeper.ErrFenced)},
		"already_settled": {req: &pb.CompleteRequest{Key: key}, err: failing(oncekeeper.ErrAlreadySettled)},
		"not_found":       {req: &pb.GetRequest{Key: key}, err: failing(oncekeeper.ErrKeyNotFound)},
		"etag_mismatch":   {req: &pb.DeleteRecordRequest{Key: key}, err: failing(oncekeeper.ErrEtagMismatch)},
		"invalid":         {req: begin, err: failing(oncekeeper.ErrInvalidRequest)},
		"overloaded":      {req: begin, err: failing(oncekeeper.ErrOverloaded)},
		"unavailable":     {req: begin, err: failing(oncekeeper.ErrStoreUnavailable)},
		"refused":         {req: begin, err: failing(oncekeeper.ErrPermissionDenied)},
		"left":            {req: begin, err: status.FromContextError(context.Canceled).Err()},
		"internal":        {req: begin, err: status.Error(codes.Internal, "a fault")},
	} {
		got, ids := judged(tc.req, tc.res, tc.err)
		if !slices.Equal(got, []string{want}) || !slices.Equal(ids, []string{"1"}) {
			t.Errorf("%T answered %v, error %v: got %q for keys %q, want %q for 1", tc.req, tc.res, tc.err, got, ids, want)
		}
	}
}

func TestEveryItemOfABatchHasItsOwnVerdict(t *testing.T) {
	key := func(id string) *pb.Key { return &pb.Key{Id: id} }
	refused := func(reason pb.ErrorReason) *pb.BatchError { return &pb.BatchError{Code: 10, Reason: reason} }

	got, ids := judged(&pb.BatchBeginRequest{Requests: []*pb.BeginRequest{{Key: key("1")}, {Key: key("2")}}},
		&pb.BatchBeginResponse{Results: []*pb.BatchBeginResult{
			{Result: &pb.BatchBeginResult_Response{Response: grant(&pb.Grant{})}},
			{Result: &pb.BatchBeginResult_Error{Error: refused(pb.ErrorReason_ERROR_REASON_ASK_ALONE)}},
		}}, nil)
	if want := []string{"granted", "ask_alone"}; !slices.Equal(got, want) || !slices.Equal(ids, []string{"1", "2"}) {
		t.Errorf("got %q for keys %q, want %q for 1 and 2", got, ids, want)
	}

	got, ids = judged(&pb.BatchSettleRequest{Settlements: []*pb.Settlement{
		{Settlement: &pb.Settlement_Complete{Complete: &pb.CompleteRequest{Key: key("1")}}},
		{Settlement: &pb.Settlement_Fail{Fail: &pb.FailRequest{Key: key("2"), Disposition: pb.FailRequest_DISPOSITION_FINAL}}},
		{Settlement: &pb.Settlement_Fail{Fail: &pb.FailRequest{Key: key("3"), Disposition: pb.FailRequest_DISPOSITION_FINAL}}},
		{Settlement: &pb.Settlement_Complete{Complete: &pb.CompleteRequest{Key: key("4")}}},
	}}, &pb.BatchSettleResponse{Results: []*pb.BatchSettleResult{
		{Result: &pb.BatchSettleResult_ExpireTime{}},
		{Result: &pb.BatchSettleResult_ExpireTime{}},
		{Result: &pb.BatchSettleResult_Error{Error: refused(pb.ErrorReason_ERROR_REASON_FENCED)}},
		{Result: &pb.BatchSettleResult_Error{Error: &pb.BatchError{Code: int32(codes.Internal)}}},
	}}, nil)
	if want := []string{"completed", "failed", "fenced", "internal"}; !slices.Equal(got, want) || !slices.Equal(ids, []string{"1", "2", "3", "4"}) {
		t.Errorf("got %q for keys %q, want %q for 1 to 4", got, ids, want)
	}
}

func TestABatchThatIsRefusedWholeIsOneVerdictAboutNoKey(t *testing.T) {
	req := &pb.BatchBeginRequest{Requests: []*pb.BeginRequest{{Key: &pb.Key{Id: "1"}}, {Key: &pb.Key{Id: "1"}}}}
	got, ids := judged(req, (*pb.BatchBeginResponse)(nil), failing(oncekeeper.ErrInvalidRequest))
	if !slices.Equal(got, []string{"invalid"}) || !slices.Equal(ids, []string{""}) {
		t.Errorf("got %q for keys %q, want invalid for none", got, ids)
	}
}

func TestEverySentinelHasAVerdict(t *testing.T) {
	for value, name := range pb.ErrorReason_name {
		s, ok := oncekeeper.SentinelFor(name[len("ERROR_REASON_"):])
		if !ok {
			continue // UNSPECIFIED
		}
		if s.Reason() == "RESPONSE_NOT_KEPT" {
			continue // the clients' own: the service never answers with it
		}
		if got := refusal(s); got == Internal {
			t.Errorf("reason %d, %s, has no verdict", value, name)
		}
	}
	if got := refusal(errors.New("what nobody foresaw")); got != Internal {
		t.Errorf("an error without a sentinel is %v, want %v", got, Internal)
	}
}
