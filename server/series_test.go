package server_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
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
	one *atomic.Int64
}

func (s trouble) strikes() bool { return rand.Int64N(s.one.Load()) == 0 }

var troubles = []error{
	fmt.Errorf("%w: no route to it", oncekeeper.ErrStoreUnavailable), fmt.Errorf("%w: full", oncekeeper.ErrOverloaded),
	oncekeeper.ErrAskAlone, context.Canceled, context.DeadlineExceeded, errors.New("what nobody foresaw"),
}

func (s trouble) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	results := s.Store.Apply(ctx, cmds...)
	for i := range results {
		if s.strikes() {
			results[i] = storage.Result{Err: troubles[rand.IntN(len(troubles))]}
		}
	}
	return results
}

func (s trouble) Read(ctx context.Context, keys ...oncekeeper.Key) (storage.Snapshot, error) {
	if s.strikes() {
		return storage.Snapshot{}, troubles[rand.IntN(len(troubles))]
	}
	return s.Store.Read(ctx, keys...)
}

// caller makes random calls about keys that nobody used before.
type caller struct {
	*operated
	rnd  *rand.Rand
	from int // of its keys
	made int
	bad  int // one key in so many is none
}

const tenants = 50_000

func (c *caller) key() *pb.Key {
	c.made++
	n := c.from + c.made
	key := &pb.Key{Tenant: fmt.Sprint("tenant ", n%tenants), Operation: fmt.Sprint("operation ", c.rnd.Uint64()), Id: fmt.Sprint(n)}
	if c.odds(c.bad) {
		key.Id = " no key"
	}
	return key
}

func (c *caller) odds(n int) bool { return c.rnd.IntN(n) == 0 }

func (c *caller) begin() *pb.BeginRequest {
	return &pb.BeginRequest{Key: c.key(), Fingerprint: []byte{byte(c.rnd.IntN(2))}, CallId: fmt.Sprint(c.rnd.Uint64())}
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

// batch begins 256 keys, begins them again in the half of all batches, and settles
// them.
func (c *caller) batch(ctx context.Context) {
	req := &pb.BatchBeginRequest{}
	for range 256 {
		req.Requests = append(req.Requests, c.begin())
	}
	switch {
	case c.odds(c.bad):
		req.Requests = append(req.Requests, c.begin()) // too many
	case c.odds(c.bad):
		req.Requests[7] = req.Requests[9] // one key twice
	}
	res, _ := c.BatchBegin(ctx, req)
	settle := &pb.BatchSettleRequest{}
	for i, item := range req.GetRequests()[:256] {
		token := int64(1)
		if res != nil {
			token = max(1, res.GetResults()[i].GetResponse().GetGrant().GetFencingToken())
		}
		settle.Settlements = append(settle.Settlements, c.settlement(item.GetKey(), token))
		item.Fingerprint, item.CallId = []byte{byte(c.rnd.IntN(2))}, fmt.Sprint(c.rnd.Uint64())
	}
	if c.odds(10) {
		_, _ = c.BatchBegin(ctx, req)
	}
	_, _ = c.BatchSettle(ctx, settle)
	if c.odds(10) {
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

// Whatever callers send, the numbers about it are as many as before.
// ONCEKEEPER_TEST_KEYS=1000000 has a million keys sent, which is a minute of two
// processors.
func TestTheKeysOfFiftyThousandTenantsLeaveTheSeriesAsManyAsTheyWere(t *testing.T) {
	keys := 200_000
	if underRace {
		keys = 50_000
	}
	if asked := os.Getenv("ONCEKEEPER_TEST_KEYS"); asked != "" {
		var err error
		if keys, err = strconv.Atoi(asked); err != nil {
			t.Fatal(err)
		}
	}
	var one atomic.Int64
	one.Store(50)
	reg, config := showing(func(cfg *server.Config) { cfg.Store = trouble{cfg.Store, &one} })
	h := start(t, onPebble(t), setup{config: config, codec: grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")})})
	o := &operated{harness: h, AdminServiceClient: pb.NewAdminServiceClient(h.conn)}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	made := 0
	from := func(bad int) *caller {
		made += keys
		return &caller{operated: o, rnd: rand.New(rand.NewPCG(uint64(made), 1)), from: made, bad: bad}
	}
	const callers = 4
	all := func(n int) {
		var calling sync.WaitGroup
		for range callers {
			c := from(100)
			calling.Go(func() { c.call(ctx, n/callers) })
		}
		calling.Wait()
	}
	// Whatever can come of a call comes of it here, also what is rare.
	all(20_000)
	one.Store(3)
	for c := from(3); c.made < 12_000; {
		c.call(ctx, c.made+1)
		for range 40 {
			c.single(ctx)
		}
	}
	one.Store(50)
	before := scrape(t, reg)
	all(keys)
	if ctx.Err() != nil {
		t.Fatal("the calls did not end in time")
	}
	after := scrape(t, reg)
	if anew := after.anew(before); len(anew) > 0 || len(after) != len(before) {
		t.Errorf("%d series became %d by %d keys: %q", len(before), len(after), keys, anew)
	}
	t.Logf("%d series after %d keys, %d of them verdicts", len(after), keys, len(after.of("oncekeeper_verdicts_total")))
}
