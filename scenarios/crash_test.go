package scenarios

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// crashLease is long against a restart, so that a lease lost in one shows, and
// short against the test, so that abandoned keys are taken over within it.
const crashLease = 1500 * time.Millisecond

// TestKill9AtRandomMomentsLosesNothingAcknowledged kills serve a hundred times
// under load, and holds what it answered against what it answers later.
func TestKill9AtRandomMomentsLosesNothingAcknowledged(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	address, dir := freeAddress(t), t.TempDir()
	conn, err := dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()

	server := serve(t, dir, address)
	w := &world{keeper: pb.NewIdempotencyServiceClient(conn), keys: map[string]*ledger{}}
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for i := range 16 {
		workers.Go(func() { w.work(ctx, rand.New(rand.NewPCG(seed, uint64(i+1)))) })
	}
	for range 100 {
		time.Sleep(time.Duration(20+random.IntN(180)) * time.Millisecond)
		server.kill(t)
		server = serve(t, dir, address)
	}
	cancel()
	workers.Wait()
	w.check(t)
	server.stop(t)
}

// world is what the workers share: the keys and what was answered about each.
type world struct {
	keeper pb.IdempotencyServiceClient
	mu     sync.Mutex
	keys   map[string]*ledger
	faults []string
	counts struct{ grants, completions, replays, unknown int }
}

// ledger is what was answered about a key. Times are of this process.
type ledger struct {
	grants []acked
	// completed is the body of an acknowledged Complete, and of every replay.
	completed string
	// spoken are the tokens of attempts whose end was sent: their lease no longer
	// keeps others out.
	spoken map[int64]bool
}

// acked is an acknowledged grant.
type acked struct {
	token          int64
	sent, received time.Time
}

// crashTimeout gives up a call whose answer a kill has lost.
const crashTimeout = 2 * time.Second

func (w *world) work(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		// Few keys at a time, so that workers meet; ever new ones, so that there is
		// something to complete.
		id := fmt.Sprintf("%d-%d", time.Now().UnixMilli()/250, random.IntN(24))
		token := w.begin(ctx, id, random)
		if token == 0 {
			continue
		}
		switch random.IntN(4) {
		case 0: // dies with its lease
		case 1:
			w.fail(ctx, id, token)
		default:
			w.complete(ctx, id, token)
		}
	}
}

func (w *world) begin(ctx context.Context, id string, random *rand.Rand) (token int64) {
	ctx, cancel := context.WithTimeout(ctx, crashTimeout)
	defer cancel()
	req := &pb.BeginRequest{
		Key: &pb.Key{Tenant: "acme", Operation: "crash", Id: id}, Fingerprint: []byte("f"),
		CallId: fmt.Sprintf("%016x", random.Uint64()), Lease: durationpb.New(crashLease),
	}
	if random.IntN(2) == 0 {
		req.Wait = durationpb.New(200 * time.Millisecond)
	}
	sent := time.Now()
	res, err := w.keeper.Begin(ctx, req, grpc.WaitForReady(true))
	received := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.ledger(id)
	switch {
	case err != nil:
		w.unless(status.Code(err), codes.Unavailable, codes.DeadlineExceeded, codes.Canceled)
		return 0
	case res.GetOutcome() != nil:
		w.counts.replays++
		w.settledAs(id, l, string(res.GetOutcome().GetResponse().GetBody()))
		return 0
	case res.GetGrant() == nil:
		return 0
	}
	w.counts.grants++
	g := acked{res.GetGrant().GetFencingToken(), sent, received}
	if l.completed != "" {
		w.fault("key %s was granted again after its completion was acknowledged", id)
	}
	for _, old := range l.grants {
		if old.received.Before(g.sent) && old.token >= g.token {
			w.fault("key %s: token %d was granted after %d", id, g.token, old.token)
		}
		first, second := old, g
		if second.token < first.token {
			first, second = second, first
		}
		// The lease runs on the server from some moment after it was asked for.
		if first.token != second.token && !l.spoken[first.token] && second.received.Before(first.sent.Add(crashLease)) {
			w.fault("key %s: %d was granted %v into the lease of %d", id, second.token, second.received.Sub(first.sent), first.token)
		}
	}
	l.grants = append(l.grants, g)
	return g.token
}

func (w *world) complete(ctx context.Context, id string, token int64) {
	ctx, cancel := context.WithTimeout(ctx, crashTimeout)
	defer cancel()
	w.speak(id, token)
	body := fmt.Sprintf("answer of %d", token)
	_, err := w.keeper.Complete(ctx, &pb.CompleteRequest{
		Key: &pb.Key{Tenant: "acme", Operation: "crash", Id: id}, FencingToken: token,
		Response: &pb.StoredResponse{Body: []byte(body)},
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		// FENCED: the lease ended meanwhile.
		w.unless(status.Code(err), codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.FailedPrecondition)
		w.counts.unknown++
		return
	}
	w.counts.completions++
	w.settledAs(id, w.ledger(id), body)
}

func (w *world) fail(ctx context.Context, id string, token int64) {
	ctx, cancel := context.WithTimeout(ctx, crashTimeout)
	defer cancel()
	w.speak(id, token)
	_, err := w.keeper.Fail(ctx, &pb.FailRequest{
		Key: &pb.Key{Tenant: "acme", Operation: "crash", Id: id}, FencingToken: token,
		Disposition: pb.FailRequest_DISPOSITION_RETRYABLE,
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unless(status.Code(err), codes.OK, codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.FailedPrecondition)
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
		l = &ledger{spoken: map[int64]bool{}}
		w.keys[id] = l
	}
	return l
}

func (w *world) settledAs(id string, l *ledger, body string) {
	if l.completed != "" && l.completed != body {
		w.fault("key %s was completed with %q and answers %q", id, l.completed, body)
	}
	l.completed = body
}

func (w *world) unless(got codes.Code, expected ...codes.Code) {
	for _, c := range expected {
		if got == c {
			return
		}
	}
	w.fault("a call was answered %v", got)
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// check holds every key's record against all that was acknowledged.
func (w *world) check(t *testing.T) {
	t.Helper()
	for id, l := range w.keys {
		res, err := w.keeper.Get(t.Context(), &pb.GetRequest{Key: &pb.Key{Tenant: "acme", Operation: "crash", Id: id}}, grpc.WaitForReady(true))
		rec := res.GetRecord()
		if err != nil && (l.completed != "" || len(l.grants) > 0) {
			w.fault("key %s was granted or completed, and its record is lost: %v", id, err)
			continue
		}
		if got := string(rec.GetOutcome().GetResponse().GetBody()); l.completed != "" && got != l.completed {
			w.fault("key %s was completed with %q and its record says %q", id, l.completed, got)
		}
		for _, g := range l.grants {
			if rec.GetFencingToken() < g.token {
				w.fault("key %s: token %d was granted and the record has %d", id, g.token, rec.GetFencingToken())
			}
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
	if w.counts.completions < 100 || w.counts.grants < 100 || w.counts.unknown == 0 {
		t.Errorf("too little happened to show anything: %+v", w.counts)
	}
}
