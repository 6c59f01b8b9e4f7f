package scenarios

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// world is what callers share: the keys and what was answered about each. Each
// call goes through it, and what it is answered is held against all that was
// acknowledged before.
type world struct {
	operation string
	lease     time.Duration
	// stop is called at the first fault: what comes after it shows nothing.
	stop func()

	mu     sync.Mutex
	keys   map[string]*ledger
	faults []string
	counts struct{ grants, takeovers, completions, replays, fenced, unknown int }
}

// ledger is what was answered about a key. Times are of this process.
type ledger struct {
	grants []acked
	// completed is the body of an acknowledged Complete, and of every replay; token
	// its attempt, and at when it was first heard of.
	completed string
	token     int64
	at        time.Time
	// spoken are the tokens of attempts whose end was sent: their lease no longer
	// keeps others out.
	spoken map[int64]bool
	// asked is when a call was first sent: a grant whose answer was lost began then,
	// and the call made again is given what is left of it.
	asked map[string]time.Time
}

// acked is an acknowledged grant.
type acked struct {
	token          int64
	call           string
	sent, received time.Time
}

// callTimeout gives up a call whose answer a kill has lost.
const callTimeout = 5 * time.Second

func newWorld(operation string, lease time.Duration, stop func()) *world {
	return &world{operation: operation, lease: lease, stop: stop, keys: map[string]*ledger{}}
}

func (w *world) key(id string) *pb.Key {
	return &pb.Key{Tenant: "acme", Operation: w.operation, Id: id}
}

func (w *world) begin(ctx context.Context, keeper pb.IdempotencyServiceClient, id, call string, wait time.Duration) (*pb.BeginResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+wait)
	defer cancel()
	req := &pb.BeginRequest{
		Key: w.key(id), Fingerprint: []byte("f"), CallId: call,
		Lease: durationpb.New(w.lease), Wait: durationpb.New(wait),
	}
	sent := w.ask(id, call)
	res, err := keeper.Begin(ctx, req, grpc.WaitForReady(true))
	received := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := res.GetOutcome(); {
	case err != nil:
		w.unless(err, "")
	case o != nil:
		w.counts.replays++
		w.settledAs(id, o.GetFencingToken(), string(o.GetResponse().GetBody()))
	case res.GetGrant() != nil:
		w.granted(id, acked{res.GetGrant().GetFencingToken(), call, sent, received})
		if res.GetGrant().GetTakeover() {
			w.counts.takeovers++
		}
	}
	return res, err
}

// ask gives when the call was first sent, which is now unless it was before.
func (w *world) ask(id, call string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.ledger(id)
	if _, again := l.asked[call]; !again {
		l.asked[call] = time.Now()
	}
	return l.asked[call]
}

// granted holds a grant against those before it and the key's completion.
func (w *world) granted(id string, g acked) {
	w.counts.grants++
	l := w.ledger(id)
	if l.completed != "" && (g.token > l.token || l.at.Before(g.sent)) {
		w.fault("key %s was granted again, as %d, after its completion by %d was acknowledged", id, g.token, l.token)
	}
	for _, old := range l.grants {
		if old.token == g.token && old.call != g.call {
			w.fault("key %s: token %d was granted to two calls", id, g.token)
		}
		if old.received.Before(g.sent) && old.token > g.token {
			w.fault("key %s: token %d was granted after %d", id, g.token, old.token)
		}
		first, second := old, g
		if second.token < first.token {
			first, second = second, first
		}
		// The lease runs on the server from some moment after it was asked for.
		if first.token != second.token && !l.spoken[first.token] && second.received.Before(first.sent.Add(w.lease)) {
			w.fault("key %s: %d was granted %v into the lease of %d", id, second.token, second.received.Sub(first.sent), first.token)
		}
	}
	l.grants = append(l.grants, g)
}

// complete settles with a body that tells whose it is.
func (w *world) complete(ctx context.Context, keeper pb.IdempotencyServiceClient, id string, token int64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	w.speak(id, token)
	body := fmt.Sprintf("answer of %d", token)
	_, err := keeper.Complete(ctx, &pb.CompleteRequest{
		Key: w.key(id), FencingToken: token, Response: &pb.StoredResponse{Body: []byte(body)},
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.unless(err, "the lease ended meanwhile")
		w.counts.unknown++
		return err
	}
	w.counts.completions++
	w.settledAs(id, token, body)
	return nil
}

func (w *world) fail(ctx context.Context, keeper pb.IdempotencyServiceClient, id string, token int64, as pb.FailRequest_Disposition) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	w.speak(id, token)
	_, err := keeper.Fail(ctx, &pb.FailRequest{Key: w.key(id), FencingToken: token, Disposition: as})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unless(err, "the lease ended meanwhile")
	return err
}

// speak notes that the attempt's end is about to be sent.
func (w *world) speak(id string, token int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ledger(id).spoken[token] = true
}

func (w *world) ledger(id string) *ledger {
	l := w.keys[id]
	if l == nil {
		l = &ledger{spoken: map[int64]bool{}, asked: map[string]time.Time{}}
		w.keys[id] = l
	}
	return l
}

func (w *world) settledAs(id string, token int64, body string) {
	l := w.ledger(id)
	if l.completed == "" {
		l.completed, l.token, l.at = body, token, time.Now()
	}
	if l.completed != body || l.token != token {
		w.fault("key %s was completed with %q by %d and answers %q by %d", id, l.completed, l.token, body, token)
	}
	for _, g := range l.grants {
		if g.token > token {
			w.fault("key %s was completed by %d, and granted as %d", id, token, g.token)
		}
	}
}

// unless notes an error that neither a kill explains nor a slow disk. Where there is a reason for the
// attempt to be over, being told so is none.
func (w *world) unless(err error, over string) {
	expected := []codes.Code{codes.OK, codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Canceled}
	if over != "" {
		expected = append(expected, codes.FailedPrecondition)
	}
	if !slices.Contains(expected, status.Code(err)) {
		w.fault("a call was answered %v", err)
	}
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
	w.stop()
}

// check holds every key's record, as each of the servers gives it, against all
// that was acknowledged.
func (w *world) check(t *testing.T, keepers ...pb.IdempotencyServiceClient) {
	t.Helper()
	for id, l := range w.keys {
		var before *pb.KeyRecord
		for i, keeper := range keepers {
			rec := w.read(t, keeper, id, l)
			if i > 0 && !proto.Equal(rec, before) {
				w.fault("key %s: one server gives %v and another %v", id, before, rec)
			}
			before = rec
		}
	}
	for i, f := range w.faults {
		if i == 20 {
			t.Errorf("and %d more", len(w.faults)-i)
			break
		}
		t.Error(f)
	}
	t.Logf("%d keys, %+v", len(w.keys), w.counts)
}

func (w *world) read(t *testing.T, keeper pb.IdempotencyServiceClient, id string, l *ledger) *pb.KeyRecord {
	t.Helper()
	res, err := keeper.Get(t.Context(), &pb.GetRequest{Key: w.key(id)}, grpc.WaitForReady(true))
	rec := res.GetRecord()
	if err != nil && (l.completed != "" || len(l.grants) > 0) {
		w.fault("key %s was granted or completed, and its record is lost: %v", id, err)
		return rec
	}
	if got := string(rec.GetOutcome().GetResponse().GetBody()); l.completed != "" && got != l.completed {
		w.fault("key %s was completed with %q and its record says %q", id, l.completed, got)
	}
	for _, g := range l.grants {
		if rec.GetFencingToken() < g.token {
			w.fault("key %s: token %d was granted and the record has %d", id, g.token, rec.GetFencingToken())
		}
	}
	return rec
}
