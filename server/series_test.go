package server_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage"
)

// trouble has one command in so many meet a fault of some kind.
type trouble struct {
	storage.Store
	mu  *sync.Mutex
	rnd *rand.Rand
}

const troubleOneIn = 50

var troubles = []error{
	fmt.Errorf("%w: no route to it", oncekeeper.ErrStoreUnavailable), fmt.Errorf("%w: full", oncekeeper.ErrOverloaded),
	oncekeeper.ErrAskAlone, oncekeeper.ErrPermissionDenied, context.Canceled, context.DeadlineExceeded, errors.New("what nobody foresaw"),
}

// strike gives a fault for some of n commands, by their places.
func (s trouble) strike(n int) map[int]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var struck map[int]error
	for i := range n {
		if s.rnd.IntN(troubleOneIn) > 0 {
			continue
		}
		if struck == nil {
			struck = map[int]error{}
		}
		struck[i] = troubles[s.rnd.IntN(len(troubles))]
	}
	return struck
}

func (s trouble) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	results := s.Store.Apply(ctx, cmds...)
	for i, err := range s.strike(len(results)) {
		results[i] = storage.Result{Err: err}
	}
	return results
}

func (s trouble) Read(ctx context.Context, keys ...oncekeeper.Key) (storage.Snapshot, error) {
	if err := s.strike(1)[0]; err != nil {
		return storage.Snapshot{}, err
	}
	return s.Store.Read(ctx, keys...)
}

// caller makes random calls about keys that nobody used before.
type caller struct {
	*operated
	rnd  *rand.Rand
	from int // of its keys
	made int
}

// badOneIn so many keys is none.
const badOneIn = 100

const tenants = 50_000

func (c *caller) key() *pb.Key {
	c.made++
	n := c.from + c.made
	key := &pb.Key{Tenant: fmt.Sprint("tenant ", n%tenants), Operation: fmt.Sprint("operation ", c.rnd.Uint64()), Id: fmt.Sprint(n)}
	if c.odds(badOneIn) {
		key.Id = " no key"
	}
	return key
}

func (c *caller) odds(n int) bool { return c.rnd.IntN(n) == 0 }

func (c *caller) begin() *pb.BeginRequest {
	return &pb.BeginRequest{
		Key: c.key(), Fingerprint: []byte{byte(c.rnd.IntN(2))}, CallId: fmt.Sprint(c.rnd.Uint64()),
		MaxAttempts: int32(c.rnd.IntN(3)), OnLeaseExpiry: pb.LeaseExpiry(c.rnd.IntN(3)),
	}
}

// token is the grant's, or another's.
func (c *caller) token(of int64) int64 { return of + int64(c.rnd.IntN(8)/7) }

func (c *caller) settlement(key *pb.Key, token int64) *pb.Settlement {
	if c.odds(2) {
		return &pb.Settlement{Settlement: &pb.Settlement_Complete{Complete: &pb.CompleteRequest{Key: key, FencingToken: c.token(token), Response: &pb.StoredResponse{Body: []byte("b")}}}}
	}
	return &pb.Settlement{Settlement: &pb.Settlement_Fail{Fail: c.failure(key, token)}}
}

func (c *caller) failure(key *pb.Key, token int64) *pb.FailRequest {
	return &pb.FailRequest{Key: key, FencingToken: c.token(token), Disposition: pb.FailRequest_Disposition(c.rnd.IntN(4)), Status: &pb.StoredStatus{Code: 9}}
}

// batch begins 256 keys, and settles those of one batch in four; then it begins them
// again, half of them as other requests, and settles them again.
func (c *caller) batch(ctx context.Context) {
	req := &pb.BatchBeginRequest{}
	for range 256 {
		req.Requests = append(req.Requests, c.begin())
	}
	switch {
	case c.odds(badOneIn):
		req.Requests = append(req.Requests, c.begin()) // too many
	case c.odds(badOneIn):
		req.Requests[7] = req.Requests[9] // one key twice
	}
	res, _ := c.BatchBegin(ctx, req)
	if !c.odds(4) {
		return
	}
	settle := &pb.BatchSettleRequest{}
	for i, item := range req.GetRequests()[:256] {
		token := int64(1)
		if res != nil {
			token = max(1, res.GetResults()[i].GetResponse().GetGrant().GetFencingToken())
		}
		settle.Settlements = append(settle.Settlements, c.settlement(item.GetKey(), token))
		item.Fingerprint, item.CallId = []byte{byte(c.rnd.IntN(2))}, fmt.Sprint(c.rnd.Uint64())
	}
	_, _ = c.BatchSettle(ctx, settle)
	if c.odds(4) {
		_, _ = c.BatchBegin(ctx, req)
		_, _ = c.BatchSettle(ctx, settle)
	}
}

// single makes the calls that no batch has.
func (c *caller) single(ctx context.Context) {
	req := c.begin()
	res, _ := c.Begin(ctx, req)
	token := max(1, res.GetGrant().GetFencingToken())
	key := req.GetKey()
	req.Fingerprint = []byte{byte(c.rnd.IntN(2))}
	_, _ = c.Begin(ctx, req)
	_, _ = c.Renew(ctx, &pb.RenewRequest{Key: key, FencingToken: c.token(token)})
	got, _ := c.Get(ctx, &pb.GetRequest{Key: key})
	etag := got.GetRecord().GetEtag()
	if c.odds(4) {
		etag = "1.1"
	}
	if c.odds(4) {
		_, _ = c.ResolveRecord(ctx, &pb.ResolveRecordRequest{
			Key: key, Etag: etag, Force: c.odds(2), Reason: "so", Resolution: &pb.ResolveRecordRequest_Release_{Release: &pb.ResolveRecordRequest_Release{}},
		})
	}
	if c.odds(2) {
		_, _ = c.Complete(ctx, &pb.CompleteRequest{Key: key, FencingToken: c.token(token), Response: &pb.StoredResponse{}})
	}
	_, _ = c.Fail(ctx, c.failure(key, token))
	req.CallId = "another"
	_, _ = c.Begin(ctx, req)
	_, _ = c.Complete(ctx, &pb.CompleteRequest{Key: c.key(), FencingToken: 1, Response: &pb.StoredResponse{}}) // of a key that nobody began
	if c.odds(4) {
		_, _ = c.DeleteRecord(ctx, &pb.DeleteRecordRequest{Key: key, Etag: etag, Force: c.odds(2), Reason: "so"})
	}
	_, _ = c.ListRecords(ctx, &pb.ListRecordsRequest{Tenant: key.GetTenant(), Operation: key.GetOperation(), PageSize: int32(c.rnd.IntN(3) - 1)})
	_ = c.conn.Invoke(ctx, fmt.Sprint("/oncekeeper.v1.IdempotencyService/Method", c.rnd.Uint64()), &emptypb.Empty{}, &emptypb.Empty{})
	_ = c.conn.Invoke(ctx, pb.IdempotencyService_Renew_FullMethodName, []byte{0xff}, &pb.RenewResponse{})
}

// call makes calls until n keys were used: of some 257, one by itself.
func (c *caller) call(ctx context.Context, n int) {
	for c.made < n && ctx.Err() == nil {
		c.batch(ctx)
		c.single(ctx)
	}
}

// Whatever callers send, the numbers about it are as many as before. All that the
// table of methods and results allows is counted once beforehand, so that a series is
// anew only where something else than the table makes one.
// ONCEKEEPER_TEST_KEYS=50000 has fewer keys sent.
func TestTheKeysOfFiftyThousandTenantsLeaveTheSeriesAsManyAsTheyWere(t *testing.T) {
	keys, seed := 1_000_000, rand.Uint64()
	if underRace {
		keys = 50_000
	}
	if asked := os.Getenv("ONCEKEEPER_TEST_KEYS"); asked != "" {
		var err error
		if keys, err = strconv.Atoi(asked); err != nil {
			t.Fatal(err)
		}
	}
	if asked := os.Getenv("ONCEKEEPER_TEST_SEED"); asked != "" {
		var err error
		if seed, err = strconv.ParseUint(asked, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the requests and the faults are of ONCEKEEPER_TEST_SEED=%d", seed)
		}
	})
	reg, config := showing(func(cfg *server.Config) {
		cfg.Store = trouble{cfg.Store, new(sync.Mutex), rand.New(rand.NewPCG(seed, 0))}
	})
	h := start(t, onPebble(t), setup{config: config, codec: grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")})})
	o := &operated{harness: h, AdminServiceClient: pb.NewAdminServiceClient(h.conn)}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()

	h.server.CountEachAnswerOnce()
	before := scrape(t, reg)
	const callers = 4
	var calling sync.WaitGroup
	for i := range callers {
		c := &caller{operated: o, rnd: rand.New(rand.NewPCG(seed, uint64(i+1))), from: i * keys}
		calling.Go(func() { c.call(ctx, keys/callers) })
	}
	calling.Wait()
	if ctx.Err() != nil {
		t.Fatal("the calls did not end in time")
	}
	after := scrape(t, reg)
	if anew := after.anew(before); len(anew) > 0 || len(after) != len(before) {
		t.Errorf("%d series became %d by %d keys, among them %q", len(before), len(after), keys, anew[:min(len(anew), 20)])
	}
	moved := map[string]bool{}
	for labels, n := range after.of("oncekeeper_verdicts_total") {
		if n > 1 {
			moved[labels] = true
		}
	}
	for _, result := range server.ResultNames() {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(moved)), func(labels string) bool { return strings.Contains(labels, "result="+result+",") }) {
			t.Errorf("no call was answered %s: this test is to have calls that are", result)
		}
	}
	t.Logf("%d series after %d keys; of %d verdicts that there could be %d came", len(after), keys, len(after.of("oncekeeper_verdicts_total")), len(moved))
}
