package soak

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncekeeper/oncekeeper/internal/served"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// What callers do, and how often of a hundred times.
var mix = []struct {
	name  string
	share int
	do    func(*one, context.Context) error
}{
	{"completed", 40, (*one).completes},
	{"replayed", 20, (*one).replays},
	{"waited", 10, (*one).waits},
	{"released", 10, (*one).releases},
	{"failed", 5, (*one).fails},
	{"taken over", 5, (*one).isTakenOver},
	{"abandoned", 5, (*one).abandons},
	{"renewed", 5, (*one).renews},
}

const (
	// retention is short, so that what a run leaves expires within it.
	retention = time.Minute
	// lease is short, so that what is abandoned lapses soon.
	lease = 5 * time.Second
	// connectionLasts for so many operations; then its caller makes another.
	connectionLasts = 200
)

// load is what all callers do together.
type load struct {
	address  string
	answered atomic.Int64
	keys     atomic.Int64
	did      [8]atomic.Int64 // of mix

	mu     sync.Mutex
	recent []string // keys that were completed, the newest over the oldest
	next   int
	wrong  []string
}

// caller makes one operation in each interval, on connections that it renews.
func (l *load) caller(ctx context.Context, interval time.Duration, random *rand.Rand) {
	one := &one{load: l, random: random}
	defer one.hangUp()
	for ctx.Err() == nil {
		if err := one.dial(); err != nil {
			l.fault("dialling: %v", err)
			return
		}
		kind := one.pick()
		err := mix[kind].do(one, context.WithoutCancel(ctx))
		switch {
		case err != nil:
			l.fault("%s: %v", mix[kind].name, err)
		default:
			l.did[kind].Add(1)
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval/2 + time.Duration(random.Int64N(int64(interval)))):
		}
	}
}

func (l *load) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

// faults gives the first of them.
func (l *load) faults() []string { return l.wrong[:min(len(l.wrong), 10)] }

func (l *load) missing() string {
	var names []string
	for i, m := range mix {
		if l.did[i].Load() == 0 {
			names = append(names, m.name)
		}
	}
	return strings.Join(names, ", ")
}

func (l *load) String() string {
	text := fmt.Sprintf("%d calls", l.answered.Load())
	for i, m := range mix {
		text += fmt.Sprintf(", %s %d", m.name, l.did[i].Load())
	}
	return text
}

// one is a caller.
type one struct {
	*load
	random *rand.Rand
	conn   *grpc.ClientConn
	keeper pb.IdempotencyServiceClient
	calls  int
}

func (o *one) hangUp() {
	if o.conn != nil {
		_ = o.conn.Close()
	}
}

func (o *one) dial() (err error) {
	if o.calls++; o.conn != nil && o.calls%connectionLasts != 0 {
		return nil
	}
	o.hangUp()
	o.conn, err = served.Dial(o.address)
	o.keeper = pb.NewIdempotencyServiceClient(o.conn)
	return err
}

func (o *one) pick() int {
	n := o.random.IntN(100)
	for i, m := range mix {
		if n -= m.share; n < 0 {
			return i
		}
	}
	return 0
}

func key(id string) *pb.Key { return &pb.Key{Tenant: "acme", Operation: "soak", Id: id} }

func (o *one) fresh() string { return fmt.Sprintf("key-%d", o.keys.Add(1)) }

// callOf bounds a call.
func callOf(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 30*time.Second)
}

// begin gives what a Begin is answered.
func (o *one) begin(ctx context.Context, id string, wait time.Duration) (*pb.BeginResponse, error) {
	ctx, cancel := callOf(ctx)
	defer cancel()
	req := &pb.BeginRequest{
		Key: key(id), Fingerprint: []byte("f"), CallId: fmt.Sprintf("%016x", o.random.Uint64()),
		Lease: durationpb.New(lease), Retention: durationpb.New(retention),
	}
	if wait > 0 {
		req.Wait = durationpb.New(wait)
	}
	res, err := o.keeper.Begin(ctx, req)
	o.answered.Add(1)
	return res, err
}

func (o *one) granted(ctx context.Context, id string) (*pb.Grant, error) {
	res, err := o.begin(ctx, id, 0)
	if err == nil && res.GetGrant() == nil {
		err = fmt.Errorf("%s is answered %v, want a grant", id, res)
	}
	return res.GetGrant(), err
}

// body is of 256 bytes, now and then of 32 KiB.
func (o *one) body(id string) []byte {
	size := 256
	if o.random.IntN(50) == 0 {
		size = 32 << 10
	}
	return append([]byte(id+" "), bytes.Repeat([]byte("x"), size)...)
}

func (o *one) complete(ctx context.Context, id string, token int64) error {
	ctx, cancel := callOf(ctx)
	defer cancel()
	_, err := o.keeper.Complete(ctx, &pb.CompleteRequest{Key: key(id), FencingToken: token, Response: &pb.StoredResponse{Body: o.body(id)}})
	o.answered.Add(1)
	return err
}

func (o *one) fail(ctx context.Context, id string, token int64, as pb.FailRequest_Disposition) error {
	ctx, cancel := callOf(ctx)
	defer cancel()
	_, err := o.keeper.Fail(ctx, &pb.FailRequest{Key: key(id), FencingToken: token, Disposition: as, Status: &pb.StoredStatus{Code: 9, Message: "no"}})
	o.answered.Add(1)
	return err
}

func (o *one) completes(ctx context.Context) error {
	id := o.fresh()
	g, err := o.granted(ctx, id)
	if err != nil {
		return err
	}
	if err := o.complete(ctx, id, g.GetFencingToken()); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recent[o.next%len(o.recent)] = id
	o.next++
	return nil
}

// replays a key of the last seconds, or completes one where there is none.
func (o *one) replays(ctx context.Context) error {
	o.mu.Lock()
	id := ""
	if o.next > 0 {
		id = o.recent[max(0, o.next-1-o.random.IntN(min(o.next, 500)))%len(o.recent)]
	}
	o.mu.Unlock()
	if id == "" {
		return o.completes(ctx)
	}
	res, err := o.begin(ctx, id, 0)
	if err == nil && !strings.HasPrefix(string(res.GetOutcome().GetResponse().GetBody()), id+" ") {
		err = fmt.Errorf("%s is answered %v, want its replay", id, res)
	}
	return err
}

// waits for the answer of a holder, which is this caller too.
func (o *one) waits(ctx context.Context) error {
	id := o.fresh()
	g, err := o.granted(ctx, id)
	if err != nil {
		return err
	}
	waiter := &one{load: o.load, random: rand.New(rand.NewPCG(o.random.Uint64(), 0)), keeper: o.keeper}
	told := make(chan error, 1)
	go func() {
		res, err := waiter.begin(ctx, id, 4*time.Second)
		if err == nil && res.GetOutcome() == nil {
			err = fmt.Errorf("a waiter for %s is answered %v, want the outcome", id, res)
		}
		told <- err
	}()
	time.Sleep(time.Duration(o.random.IntN(50)) * time.Millisecond)
	if err := o.complete(ctx, id, g.GetFencingToken()); err != nil {
		return err
	}
	return <-told
}

func (o *one) releases(ctx context.Context) error {
	return o.again(ctx, pb.FailRequest_DISPOSITION_RETRYABLE, false)
}

func (o *one) isTakenOver(ctx context.Context) error {
	return o.again(ctx, pb.FailRequest_DISPOSITION_UNKNOWN, true)
}

func (o *one) again(ctx context.Context, as pb.FailRequest_Disposition, takeover bool) error {
	id := o.fresh()
	g, err := o.granted(ctx, id)
	if err != nil {
		return err
	}
	if err := o.fail(ctx, id, g.GetFencingToken(), as); err != nil {
		return err
	}
	if g, err = o.granted(ctx, id); err != nil {
		return err
	}
	if g.GetTakeover() != takeover || g.GetAttemptNumber() != 2 {
		return fmt.Errorf("the second attempt of %s is %v", id, g)
	}
	return o.complete(ctx, id, g.GetFencingToken())
}

func (o *one) fails(ctx context.Context) error {
	id := o.fresh()
	g, err := o.granted(ctx, id)
	if err != nil {
		return err
	}
	if err := o.fail(ctx, id, g.GetFencingToken(), pb.FailRequest_DISPOSITION_FINAL); err != nil {
		return err
	}
	res, err := o.begin(ctx, id, 0)
	if err == nil && res.GetOutcome().GetStatus().GetCode() != 9 {
		err = fmt.Errorf("%s is answered %v, want its failure", id, res)
	}
	return err
}

// abandons a key, which nobody asks for again.
func (o *one) abandons(ctx context.Context) error {
	_, err := o.granted(ctx, o.fresh())
	return err
}

func (o *one) renews(ctx context.Context) error {
	id := o.fresh()
	g, err := o.granted(ctx, id)
	if err != nil {
		return err
	}
	call, cancel := callOf(ctx)
	defer cancel()
	_, err = o.keeper.Renew(call, &pb.RenewRequest{Key: key(id), FencingToken: g.GetFencingToken(), Lease: durationpb.New(2 * lease), Checkpoint: []byte("half")})
	if o.answered.Add(1); err != nil {
		return err
	}
	// A late word of somebody else is fenced.
	if err := o.complete(ctx, id, g.GetFencingToken()-1); status.Code(err) != codes.FailedPrecondition {
		return fmt.Errorf("a word of another about %s is answered %v, want it fenced", id, err)
	}
	return o.complete(ctx, id, g.GetFencingToken())
}
