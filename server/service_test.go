package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/server/policy"
	"github.com/oncekeeper/oncekeeper/storage"
)

func TestAnOperationRunsOnceAndIsReplayedWhole(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		g := h.grant(t, begin("1", "a"))
		want := &pb.StoredResponse{
			Body: []byte{0, 1, 2, 255}, ContentType: "application/x", StatusCode: 201, Resource: "charges/1",
			Metadata: []*pb.MetadataEntry{
				{Kind: pb.MetadataEntry_KIND_HEADER, Name: "etag", Value: []byte("x")},
				{Kind: pb.MetadataEntry_KIND_TRAILER, Name: "cost-bin", Value: []byte{0}},
			},
		}
		settle := &pb.CompleteRequest{Key: key("1"), FencingToken: g.GetFencingToken(), Response: want}
		for range 2 { // saying it again is no error
			if _, err := h.Complete(testContext(t), settle); err != nil {
				t.Fatal(err)
			}
		}
		res, err := h.Begin(testContext(t), begin("1", "b"))
		if err != nil || !proto.Equal(res.GetOutcome().GetResponse(), want) {
			t.Fatalf("the replay is %v, %v; want %v", res, err, want)
		}
		o := res.GetOutcome()
		if o.GetOrigin() != pb.Outcome_ORIGIN_ATTEMPT || o.GetFencingToken() != g.GetFencingToken() || o.GetAttemptNumber() != 1 ||
			o.GetExpireTime().AsTime().Sub(o.GetSettleTime().AsTime()) != policy.Default().Retention {
			t.Errorf("the replay says %v", o)
		}
		settle.Response = &pb.StoredResponse{Body: []byte("other")}
		_, err = h.Complete(testContext(t), settle)
		wantReason(t, err, codes.FailedPrecondition, "ALREADY_SETTLED")
	})
}

func TestALateFinisherIsFencedWhateverBecameOfTheKey(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		late := h.grant(t, begin("1", "a"))
		lateComplete := func() error {
			_, err := h.Complete(testContext(t), &pb.CompleteRequest{Key: key("1"), FencingToken: late.GetFencingToken(), Response: &pb.StoredResponse{Body: []byte("late")}})
			return err
		}
		h.advance(30 * time.Second)
		next := h.grant(t, begin("1", "b"))
		if !next.GetTakeover() || next.GetAttemptNumber() != 2 {
			t.Fatalf("the next attempt is %v, want a takeover", next)
		}
		wantReason(t, lateComplete(), codes.FailedPrecondition, "FENCED")
		h.complete(t, "1", next.GetFencingToken(), "next")
		wantReason(t, lateComplete(), codes.FailedPrecondition, "FENCED")
		got, err := h.Get(testContext(t), &pb.GetRequest{Key: key("1")})
		if err != nil || string(got.GetRecord().GetOutcome().GetResponse().GetBody()) != "next" {
			t.Fatalf("Get gives %v, %v; want the next holder's outcome alone", got, err)
		}
		h.advance(24 * time.Hour)
		wantReason(t, lateComplete(), codes.NotFound, "KEY_NOT_FOUND")
	})
}

func TestWhatIsAskedForIsClampedAndTheAnswerShowsIt(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		p := policy.Default()
		p.MaxLease, p.MaxRetention = time.Minute, time.Hour
		p.Retention = time.Hour
		p.MaxAttempts = 2
		h := start(t, on, setup{policy: p})
		req := begin("1", "a")
		req.Lease, req.Retention, req.MaxAttempts = wire(2*time.Hour), wire(48*time.Hour), 5
		g := h.grant(t, req)
		if g.GetLease().AsDuration() != time.Minute {
			t.Errorf("a lease of 2h came as %v, want 1m", g.GetLease().AsDuration())
		}
		h.fail(t, "1", g.GetFencingToken(), pb.FailRequest_DISPOSITION_RETRYABLE)
		h.fail(t, "1", h.grant(t, begin("1", "b")).GetFencingToken(), pb.FailRequest_DISPOSITION_RETRYABLE)
		res, err := h.Begin(testContext(t), begin("1", "c"))
		if err != nil || res.GetOutcome().GetOrigin() != pb.Outcome_ORIGIN_EXHAUSTED || res.GetOutcome().GetStatus().GetCode() != 9 {
			t.Fatalf("after two attempts of at most two it was answered %v, %v; want the last status, exhausted", res, err)
		}
		if kept := res.GetOutcome().GetExpireTime().AsTime().Sub(res.GetOutcome().GetSettleTime().AsTime()); kept != time.Hour {
			t.Errorf("it is kept for %v, want 1h", kept)
		}
	})
}

func TestALeaseIsRoundedUpToTheMicrosecond(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		req := begin("1", "a")
		req.Lease = wire(1500 * time.Nanosecond)
		if got := h.grant(t, req).GetLease().AsDuration(); got != 2*time.Microsecond {
			t.Errorf("a lease of 1.5µs came as %v, want 2µs", got)
		}
	})
}

func TestABatchGivesEachItemItsOwnResult(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		h.complete(t, "done", h.grant(t, begin("done", "")).GetFencingToken(), "x")
		h.grant(t, begin("busy", ""))
		mismatch := begin("busy", "")
		mismatch.Fingerprint = []byte("other")
		other := func(r *pb.BeginRequest, id string) *pb.BeginRequest { r.Key.Id = id; return r }
		bad := begin(" ", "")
		res, err := h.BatchBegin(testContext(t), &pb.BatchBeginRequest{Requests: []*pb.BeginRequest{
			begin("new", ""), begin("done", ""), begin("busy", ""), bad,
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := res.GetResults()
		if r[0].GetResponse().GetGrant() == nil || r[1].GetResponse().GetOutcome() == nil || r[2].GetResponse().GetInProgress() == nil {
			t.Errorf("the batch gave %v", r)
		}
		if e := r[3].GetError(); e.GetReason() != pb.ErrorReason_ERROR_REASON_INVALID_REQUEST || !strings.Contains(e.GetMessage(), "requests[3].key.id") {
			t.Errorf("the bad item gave %v, want INVALID_REQUEST naming its field", e)
		}
		res, err = h.BatchBegin(testContext(t), &pb.BatchBeginRequest{Requests: []*pb.BeginRequest{mismatch, other(begin("", ""), "more")}})
		if err != nil || res.GetResults()[0].GetError().GetReason() != pb.ErrorReason_ERROR_REASON_FINGERPRINT_MISMATCH || res.GetResults()[1].GetResponse().GetGrant() == nil {
			t.Errorf("the second batch gave %v, %v", res, err)
		}
		token := r[0].GetResponse().GetGrant().GetFencingToken()
		settled, err := h.BatchSettle(testContext(t), &pb.BatchSettleRequest{Settlements: []*pb.Settlement{
			{Settlement: &pb.Settlement_Complete{Complete: &pb.CompleteRequest{Key: key("new"), FencingToken: token}}},
			{Settlement: &pb.Settlement_Fail{Fail: &pb.FailRequest{Key: key("busy"), FencingToken: 1, Disposition: pb.FailRequest_DISPOSITION_UNKNOWN}}},
			{Settlement: &pb.Settlement_Fail{Fail: &pb.FailRequest{Key: key("none"), FencingToken: 1, Disposition: pb.FailRequest_DISPOSITION_UNKNOWN}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		s := settled.GetResults()
		if s[0].GetExpireTime() == nil || s[1].GetError().GetReason() != pb.ErrorReason_ERROR_REASON_FENCED ||
			s[2].GetError().GetReason() != pb.ErrorReason_ERROR_REASON_KEY_NOT_FOUND || s[2].GetError().GetCode() != int32(codes.NotFound) {
			t.Errorf("the settlements gave %v", s)
		}
	})
}

func TestAReplayThatDoesNotFitABatchIsAskedForAlone(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		var reqs []*pb.BeginRequest
		for i := range 4 {
			id := fmt.Sprint(i)
			h.complete(t, id, h.grant(t, begin(id, "")).GetFencingToken(), strings.Repeat("x", 1<<20))
			reqs = append(reqs, begin(id, ""))
		}
		reqs = append(reqs, begin("new", ""))
		res, err := h.BatchBegin(testContext(t), &pb.BatchBeginRequest{Requests: reqs})
		if err != nil {
			t.Fatal(err)
		}
		fit, alone := 0, 0
		for _, r := range res.GetResults()[:4] {
			switch {
			case r.GetResponse().GetOutcome() != nil:
				fit++
			case r.GetError().GetReason() == pb.ErrorReason_ERROR_REASON_ASK_ALONE:
				alone++
			}
		}
		if fit != 2 || alone != 2 {
			t.Errorf("of 4 replays of 1 MiB %d fit and %d are to be asked for alone, want 2 and 2", fit, alone)
		}
		if e := res.GetResults()[4].GetError(); e.GetReason() != pb.ErrorReason_ERROR_REASON_ASK_ALONE {
			t.Fatalf("what comes behind a full answer is %v, want to be asked for alone", res.GetResults()[4])
		}
		if g := h.grant(t, begin("new", "")); g.GetAttemptNumber() != 1 {
			t.Errorf("asked for alone it is attempt %d: a grant was lost to a full batch", g.GetAttemptNumber())
		}
	})
}

// broken is a store that gives err, or panics with it.
type broken struct {
	storage.Store
	err   error
	panic bool
}

func (b broken) Apply(_ context.Context, cmds ...lifecycle.Command) []storage.Result {
	if b.panic {
		panic(b.err)
	}
	results := make([]storage.Result, len(cmds))
	for i := range results {
		results[i].Err = b.err
	}
	return results
}

func TestErrorsOfTheStoreTellCallersWhatToDoAndNothingElse(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		for name, c := range map[string]struct {
			store  broken
			code   codes.Code
			reason string
		}{
			"unavailable": {broken{err: fmt.Errorf("host db-7: %w", oncekeeper.ErrStoreUnavailable)}, codes.Unavailable, "STORE_UNAVAILABLE"},
			"overloaded":  {broken{err: fmt.Errorf("secret: %w", oncekeeper.ErrOverloaded)}, codes.ResourceExhausted, "OVERLOADED"},
			"unforeseen":  {broken{err: errors.New("secret")}, codes.Internal, ""},
			"panic":       {broken{err: errors.New("secret"), panic: true}, codes.Internal, ""},
		} {
			t.Run(name, func(t *testing.T) {
				h := start(t, on, setup{store: func(s storage.Store) storage.Store { c.store.Store = s; return c.store }})
				_, err := h.Begin(testContext(t), begin("1", "a"))
				st := status.Convert(err)
				if strings.Contains(st.String(), "secret") || strings.Contains(st.String(), "db-7") {
					t.Errorf("the caller is told %q", st)
				}
				if c.reason == "" {
					if st.Code() != c.code {
						t.Errorf("got %v, want %v", st, c.code)
					}
					return
				}
				wantReason(t, err, c.code, c.reason)
				var retry *errdetails.RetryInfo
				for _, d := range st.Details() {
					if r, ok := d.(*errdetails.RetryInfo); ok {
						retry = r
					}
				}
				if retry.GetRetryDelay().AsDuration() <= 0 {
					t.Error("there is no RetryInfo")
				}
			})
		}
	})
}

func TestAStoreThatIsDownIsNotLoggedACall(t *testing.T) {
	var out bytes.Buffer
	srv, err := server.New(server.Config{
		Store:  broken{err: oncekeeper.ErrStoreUnavailable},
		Logger: slog.New(slog.NewTextHandler(&out, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		srv.BeginForTest(t.Context(), begin("1", "a"))
	}
	if lines := strings.Count(out.String(), "\n"); lines < 1 || lines > 10 {
		t.Errorf("a thousand calls to a store that is down made %d lines of log", lines)
	}
}

func TestHealthAndReflectionAreServed(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		for _, service := range []string{"", "oncekeeper.v1.IdempotencyService"} {
			res, err := healthpb.NewHealthClient(h.conn).Check(testContext(t), &healthpb.HealthCheckRequest{Service: service})
			if err != nil || res.GetStatus() != healthpb.HealthCheckResponse_SERVING {
				t.Errorf("health of %q is %v, %v", service, res, err)
			}
		}
		stream, err := reflectionpb.NewServerReflectionClient(h.conn).ServerReflectionInfo(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		ask := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "oncekeeper.v1.IdempotencyService"}}
		if err := stream.Send(ask); err != nil {
			t.Fatal(err)
		}
		if res, err := stream.Recv(); err != nil || len(res.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
			t.Errorf("reflection gives %v, %v", res, err)
		}
	})
}

func TestABadConfigIsRefused(t *testing.T) {
	if _, err := server.New(server.Config{}); err == nil {
		t.Error("a server without a store was made")
	}
	p := policy.Default()
	p.Lease = 2 * p.MaxLease
	if _, err := server.New(server.Config{Store: broken{}, Policy: &p}); err == nil || !strings.Contains(err.Error(), "max_lease") {
		t.Errorf("a default lease above its maximum gave %v", err)
	}
}

func TestABatchOfTheLargestAnswersReachesAnOrdinaryClient(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		var reqs []*pb.BeginRequest
		for i := range 256 {
			id := fmt.Sprint(i)
			g := h.grant(t, begin(id, ""))
			if i < 2 {
				h.complete(t, id, g.GetFencingToken(), strings.Repeat("x", 1<<20))
			} else {
				_, err := h.Renew(testContext(t), &pb.RenewRequest{Key: key(id), FencingToken: g.GetFencingToken(), Checkpoint: bytes.Repeat([]byte("c"), 4096)})
				if err != nil {
					t.Fatal(err)
				}
			}
			reqs = append(reqs, begin(id, ""))
		}
		h.advance(time.Hour)
		res, err := h.BatchBegin(testContext(t), &pb.BatchBeginRequest{Requests: reqs})
		if err != nil {
			t.Fatalf("the answer did not arrive: %v", err)
		}
		for i, r := range res.GetResults() {
			if r.GetError() == nil {
				continue
			}
			// What was not told was not granted.
			got, err := h.Get(testContext(t), &pb.GetRequest{Key: key(fmt.Sprint(i))})
			if err != nil || got.GetRecord().GetAttemptNumber() != 1 {
				t.Fatalf("item %d was answered %v, and its record is %v, %v", i, r.GetError(), got, err)
			}
		}
	})
}

func TestARoomyStatusIsBoundedInAllItsParts(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		g := h.grant(t, begin("1", ""))
		details := make([][]byte, 64)
		for i := range details {
			details[i] = make([]byte, (1<<20)/64)
		}
		_, err := h.Fail(testContext(t), &pb.FailRequest{
			Key: key("1"), FencingToken: g.GetFencingToken(), Disposition: pb.FailRequest_DISPOSITION_FINAL,
			Status: &pb.StoredStatus{Code: 9, Message: strings.Repeat("m", 8<<10), Details: details},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := h.Get(testContext(t), &pb.GetRequest{Key: key("1")}); err != nil || len(got.GetRecord().GetOutcome().GetStatus().GetDetails()) != 64 {
			t.Errorf("a status at its limits cannot be read: %v, %v", got, err)
		}
	})
}
