package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/server/policy"
	"github.com/oncekeeper/oncekeeper/storage"
)

// pages lists to the end, and gives the ids of each page. It is bounded.
func (h *operated) pages(t *testing.T, req *pb.ListRecordsRequest) (pages [][]string) {
	t.Helper()
	for range 100 {
		res, err := h.ListRecords(testContext(t), req)
		if err != nil {
			t.Fatalf("ListRecords: %v", err)
		}
		var ids []string
		for _, rec := range res.GetRecords() {
			ids = append(ids, rec.GetKey().GetId())
		}
		if pages = append(pages, ids); res.GetNextPageToken() == "" {
			return pages
		}
		req.PageToken = res.GetNextPageToken()
	}
	t.Fatal("the listing does not end")
	return nil
}

// inEveryState makes one key in each state, named for it, a second apart.
func (h *operated) inEveryState(t *testing.T) {
	t.Helper()
	for state := pb.KeyRecord_STATE_PENDING; state <= pb.KeyRecord_STATE_FAILED; state++ {
		begun[state](t, h, strings.ToLower(strings.TrimPrefix(state.String(), "STATE_")))
		h.advance(time.Second)
	}
}

func TestRecordsAreListedByKeyOrByAgeAPageAtATime(t *testing.T) {
	onStores(t, func(t *testing.T, h *operated) {
		h.inEveryState(t)
		for want, req := range map[string]*pb.ListRecordsRequest{
			"[[abandoned completed failed pending] [released unresolved]]": {PageSize: 4},
			"[[abandoned] [pending] [unresolved]]": {
				PageSize: 1, States: []pb.KeyRecord_State{pb.KeyRecord_STATE_UNRESOLVED, pb.KeyRecord_STATE_PENDING, pb.KeyRecord_STATE_ABANDONED},
			},
			// By the end of the lease: what was said to be unknown ended then.
			"[[abandoned unresolved] [pending]]": {
				PageSize: 2, Order: pb.ListRecordsRequest_ORDER_AGE,
				States: []pb.KeyRecord_State{pb.KeyRecord_STATE_UNRESOLVED, pb.KeyRecord_STATE_PENDING, pb.KeyRecord_STATE_ABANDONED},
			},
			"[[unresolved]]": {Order: pb.ListRecordsRequest_ORDER_AGE, States: []pb.KeyRecord_State{pb.KeyRecord_STATE_UNRESOLVED}},
		} {
			if got := fmt.Sprint(h.pages(t, req)); got != want {
				t.Errorf("listing %v gives %s, want %s", req, got, want)
			}
		}
	})
}

func TestAListingIsNarrowedByEachOfItsFilters(t *testing.T) {
	onStores(t, func(t *testing.T, h *operated) {
		h.inEveryState(t)
		since := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(epoch.Add(d)) }
		for _, c := range []struct {
			req  *pb.ListRecordsRequest
			want string
		}{
			{&pb.ListRecordsRequest{Tenant: "acme", Operation: "pay", IdPrefix: "a"}, "[abandoned]"},
			{&pb.ListRecordsRequest{IdPrefix: "pend"}, "[pending]"},
			{&pb.ListRecordsRequest{Operation: "pay", IdPrefix: "r"}, "[released]"},
			{&pb.ListRecordsRequest{Tenant: "ac"}, "[]"},
			{&pb.ListRecordsRequest{Operation: "refund"}, "[]"},
			{&pb.ListRecordsRequest{IdPrefix: "%"}, "[]"},
			{&pb.ListRecordsRequest{States: []pb.KeyRecord_State{pb.KeyRecord_STATE_FAILED, pb.KeyRecord_STATE_COMPLETED}}, "[completed failed]"},
			// Neither bound is part of the range, to the nanosecond.
			{&pb.ListRecordsRequest{CreatedAfter: since(time.Second), CreatedBefore: since(3 * time.Second)}, "[unresolved]"},
			{&pb.ListRecordsRequest{CreatedAfter: since(time.Second - 1), CreatedBefore: since(3*time.Second + 1)}, "[abandoned released unresolved]"},
			{&pb.ListRecordsRequest{CreatedBefore: timestamppb.New(time.Unix(0, 0))}, "[]"},
			{&pb.ListRecordsRequest{CreatedAfter: timestamppb.New(time.Unix(0, 0))}, "[abandoned completed failed pending released unresolved]"},
		} {
			if got := fmt.Sprint(h.pages(t, c.req)[0]); got != c.want {
				t.Errorf("listing %v gives %s, want %s", c.req, got, c.want)
			}
		}
	})
}

// neighbours are keys of tenants and operations that a careless join or pattern
// would take for one another.
var neighbours = []*pb.Key{
	{Tenant: "a", Operation: "p", Id: "1"}, {Tenant: "ab", Operation: "p", Id: "1"},
	{Tenant: "a:p", Operation: "p", Id: "1"}, {Tenant: "a", Operation: "p:p", Id: "1"},
	{Tenant: "a/p", Operation: "1", Id: "1"}, {Tenant: "a", Operation: "p/1", Id: "1"},
	{Tenant: "a%", Operation: "p%", Id: "%"}, {Tenant: "a#", Operation: "p#", Id: "#"},
	{Tenant: "a_", Operation: "p_", Id: "_"}, {Tenant: "A", Operation: "P", Id: "1"}, {Tenant: "%", Operation: "%", Id: "%"},
}

func TestATenantsListingAndSweepTouchNoOtherTenant(t *testing.T) {
	onStores(t, func(t *testing.T, h *operated) {
		for _, k := range neighbours {
			g := h.grant(t, &pb.BeginRequest{Key: k})
			if _, err := h.Complete(testContext(t), &pb.CompleteRequest{Key: k, FencingToken: g.GetFencingToken()}); err != nil {
				t.Fatal(err)
			}
		}
		for _, k := range neighbours {
			for _, req := range []*pb.ListRecordsRequest{
				{Tenant: k.GetTenant()}, {Operation: k.GetOperation()}, {Tenant: k.GetTenant(), Operation: k.GetOperation(), IdPrefix: k.GetId()},
			} {
				res, err := h.ListRecords(testContext(t), req)
				if err != nil || len(res.GetRecords()) == 0 {
					t.Fatalf("listing %v gives %v, %v", req, res, err)
				}
				for _, rec := range res.GetRecords() {
					at := rec.GetKey()
					if (req.GetTenant() != "" && at.GetTenant() != k.GetTenant()) || (req.GetOperation() != "" && at.GetOperation() != k.GetOperation()) {
						t.Errorf("listing %v gives %v", req, at)
					}
				}
			}
		}
		h.advance(48 * time.Hour)
		for _, k := range neighbours {
			want := int64(0)
			for _, other := range neighbours {
				if other.GetTenant() == k.GetTenant() && other.GetOperation() == k.GetOperation() {
					want++
				}
			}
			res, err := h.Sweep(testContext(t), &pb.SweepRequest{Tenant: k.GetTenant(), Operation: k.GetOperation()})
			if err != nil || res.GetSwept() != want || res.GetMore() {
				t.Errorf("sweeping %v gives %v, %v; want %d", k, res, err, want)
			}
		}
	})
}

func TestAPageTokenContinuesItsOwnListingAlone(t *testing.T) {
	onStores(t, func(t *testing.T, h *operated) {
		h.inEveryState(t)
		first, err := h.ListRecords(testContext(t), &pb.ListRecordsRequest{Tenant: "acme", PageSize: 2})
		if err != nil {
			t.Fatal(err)
		}
		token := first.GetNextPageToken()
		for name, req := range map[string]*pb.ListRecordsRequest{
			"another tenant":    {Tenant: "ac"},
			"no tenant":         {},
			"an operation too":  {Tenant: "acme", Operation: "pay"},
			"a prefix too":      {Tenant: "acme", IdPrefix: "a"},
			"states too":        {Tenant: "acme", States: []pb.KeyRecord_State{pb.KeyRecord_STATE_PENDING}},
			"another order":     {Tenant: "acme", Order: pb.ListRecordsRequest_ORDER_AGE, States: []pb.KeyRecord_State{pb.KeyRecord_STATE_PENDING}},
			"created after too": {Tenant: "acme", CreatedAfter: timestamppb.New(epoch)},
		} {
			var trailer metadata.MD
			req.PageToken = token
			_, err := h.ListRecords(testContext(t), req, grpc.Trailer(&trailer))
			t.Run(name, func(t *testing.T) { wantInvalid(t, err, trailer, "page_token") })
		}
		for _, spoilt := range []string{"x", "!", token[:len(token)-3], token + "AAAA", strings.Repeat("A", 8<<10+4), token[:22]} {
			var trailer metadata.MD
			_, err := h.ListRecords(testContext(t), &pb.ListRecordsRequest{Tenant: "acme", PageToken: spoilt}, grpc.Trailer(&trailer))
			if err != nil { // a shorter cursor may be one too
				wantInvalid(t, err, trailer, "page_token")
			} else if spoilt == "x" || spoilt == "!" || len(spoilt) > 8<<10 {
				t.Errorf("the token %.10q was taken", spoilt)
			}
		}
		if got := h.pages(t, &pb.ListRecordsRequest{Tenant: "acme", PageSize: 3, PageToken: token, View: pb.ListRecordsRequest_VIEW_FULL}); fmt.Sprint(got) != "[[failed pending released] [unresolved]]" {
			t.Errorf("with another page size and view it goes on with %v", got)
		}
		by := []pb.KeyRecord_State{pb.KeyRecord_STATE_FAILED, pb.KeyRecord_STATE_COMPLETED, pb.KeyRecord_STATE_FAILED}
		page, err := h.ListRecords(testContext(t), &pb.ListRecordsRequest{States: by, PageSize: 1})
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(by[:2])
		if got := h.pages(t, &pb.ListRecordsRequest{States: by, PageToken: page.GetNextPageToken()}); fmt.Sprint(got) != "[[failed]]" {
			t.Errorf("with the same states in another order it goes on with %v", got)
		}
	})
}

func TestAListingOutsideItsLimitsNamesTheField(t *testing.T) {
	h := operate(t, onPebble(t), nil)
	for _, c := range []struct {
		field string
		req   *pb.ListRecordsRequest
	}{
		{"tenant", &pb.ListRecordsRequest{Tenant: " a"}},
		{"operation", &pb.ListRecordsRequest{Operation: strings.Repeat("o", 257)}},
		{"id_prefix", &pb.ListRecordsRequest{IdPrefix: strings.Repeat("i", 256)}},
		{"id_prefix", &pb.ListRecordsRequest{IdPrefix: "a\n"}},
		{"states[1]", &pb.ListRecordsRequest{States: []pb.KeyRecord_State{1, 0}}},
		{"states[0]", &pb.ListRecordsRequest{States: []pb.KeyRecord_State{7}}},
		{"created_after", &pb.ListRecordsRequest{CreatedAfter: &timestamppb.Timestamp{Nanos: -1}}},
		{"created_before", &pb.ListRecordsRequest{CreatedBefore: &timestamppb.Timestamp{Seconds: 1 << 60}}},
		{"order", &pb.ListRecordsRequest{Order: 3}},
		{"order", &pb.ListRecordsRequest{Order: pb.ListRecordsRequest_ORDER_AGE}},
		{"order", &pb.ListRecordsRequest{Order: pb.ListRecordsRequest_ORDER_AGE, States: []pb.KeyRecord_State{1, pb.KeyRecord_STATE_RELEASED}}},
		{"view", &pb.ListRecordsRequest{View: 3}},
		{"page_size", &pb.ListRecordsRequest{PageSize: -1}},
		{"page_token", &pb.ListRecordsRequest{PageToken: "x"}},
	} {
		var trailer metadata.MD
		_, err := h.ListRecords(testContext(t), c.req, grpc.Trailer(&trailer))
		t.Run(c.field, func(t *testing.T) { wantInvalid(t, err, trailer, c.field) })
	}
	for field, req := range map[string]*pb.SweepRequest{
		"tenant": {Tenant: "a\x00"}, "operation": {Operation: " "}, "max_records": {MaxRecords: -1},
	} {
		var trailer metadata.MD
		_, err := h.Sweep(testContext(t), req, grpc.Trailer(&trailer))
		t.Run("sweep "+field, func(t *testing.T) { wantInvalid(t, err, trailer, field) })
	}
}

func TestABasicViewLeavesOutBodiesAndCheckpoints(t *testing.T) {
	h := operate(t, onPebble(t), nil)
	g := h.grant(t, begin("1", ""))
	_, err := h.Renew(testContext(t), &pb.RenewRequest{Key: key("1"), FencingToken: g.GetFencingToken(), Checkpoint: []byte("half")})
	if err != nil {
		t.Fatal(err)
	}
	h.complete(t, "1", g.GetFencingToken(), "the answer")
	for view, want := range map[pb.ListRecordsRequest_View]string{
		pb.ListRecordsRequest_VIEW_UNSPECIFIED: "", pb.ListRecordsRequest_VIEW_BASIC: "", pb.ListRecordsRequest_VIEW_FULL: "the answer half",
	} {
		res, err := h.ListRecords(testContext(t), &pb.ListRecordsRequest{View: view})
		if err != nil || len(res.GetRecords()) != 1 {
			t.Fatalf("%v gives %v, %v", view, res, err)
		}
		rec := res.GetRecords()[0]
		got := strings.TrimSpace(string(rec.GetOutcome().GetResponse().GetBody()) + " " + string(rec.GetCheckpoint()))
		if got != want || rec.GetOutcome() == nil || rec.GetEtag() != h.look(t, "1").GetEtag() {
			t.Errorf("%v gives %v, want a body and a checkpoint of %q", view, rec, want)
		}
	}
	if body := h.look(t, "1").GetOutcome().GetResponse().GetBody(); string(body) != "the answer" {
		t.Errorf("after a listing the body is %q", body)
	}
}

func TestPagesOfLargeRecordsReachAnOrdinaryClient(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		p := policy.Default()
		p.MaxResponseBytes = 3 << 20
		h := operate(t, on, func(cfg *server.Config) { cfg.Policy = &p })
		var want []string
		for i, size := range []int{1 << 20, 3 << 20, 10, 1 << 20, 1 << 20, 1 << 20, 10, 3 << 20, 3 << 20, 10} {
			id := fmt.Sprint(i)
			want = append(want, id)
			h.complete(t, id, h.grant(t, begin(id, "")).GetFencingToken(), strings.Repeat("x", size))
		}
		pages := h.pages(t, &pb.ListRecordsRequest{View: pb.ListRecordsRequest_VIEW_FULL})
		if got := slices.Concat(pages...); !slices.Equal(got, want) || len(pages) < 5 {
			t.Errorf("the pages are %v, want each of %v once, in pages below 4 MiB", pages, want)
		}
		if pages := h.pages(t, &pb.ListRecordsRequest{}); len(pages) != 1 {
			t.Errorf("without bodies the pages are %v, want one", pages)
		}
	})
}

func TestAPageHoldsAHundredRecordsOrAsManyAsAreAskedFor(t *testing.T) {
	h := operate(t, onPebble(t), nil)
	for i := range 1101 {
		h.grant(t, begin(fmt.Sprint(i), ""))
	}
	for size, want := range map[int32]int{0: 100, 1: 1, 101: 101, 250: 250, 1000: 1000, 1001: 1000, 1 << 30: 1000} {
		res, err := h.ListRecords(testContext(t), &pb.ListRecordsRequest{PageSize: size})
		if err != nil || len(res.GetRecords()) != want || res.GetNextPageToken() == "" {
			t.Errorf("a page size of %d gives %d records, %v; want %d and a token", size, len(res.GetRecords()), err, want)
		}
	}
}

// searching is a store that found nothing yet, and is not through.
type searching struct{ storage.Store }

func (searching) List(context.Context, storage.ListQuery) (storage.Page, error) {
	return storage.Page{Next: "later"}, nil
}

func TestAPageMayComeShortAndIsToBeContinued(t *testing.T) {
	h := operate(t, onPebble(t), func(cfg *server.Config) { cfg.Store = searching{cfg.Store} })
	res, err := h.ListRecords(testContext(t), &pb.ListRecordsRequest{})
	if err != nil || len(res.GetRecords()) != 0 || res.GetNextPageToken() == "" {
		t.Errorf("got %v, %v; want no record and a token", res, err)
	}
}
