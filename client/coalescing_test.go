package client_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// crowd is a world whose callers share calls. Its gate holds the first calls of a
// method until enough callers have come to share the next.
type crowd struct {
	*world
	mu   sync.Mutex
	held map[string]chan struct{}
	came chan string
}

func newCrowd(t *testing.T, methods ...string) *crowd {
	t.Helper()
	c := &crowd{world: newWorld(t, client.WithCoalescing()), held: map[string]chan struct{}{}, came: make(chan string, 1000)}
	for _, method := range methods {
		c.held[method] = make(chan struct{})
	}
	c.gate = func(ctx context.Context, method string) {
		c.mu.Lock()
		held := c.held[method]
		c.mu.Unlock()
		c.came <- method
		if held != nil {
			select {
			case <-held:
			case <-ctx.Done():
			}
		}
	}
	return c
}

// letGo lets the calls of method go.
func (c *crowd) letGo(method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.held[method])
	delete(c.held, method)
}

func keyNumber(n int) oncekeeper.Key {
	k := key
	k.ID = fmt.Sprint("k-", n)
	return k
}

// begun has n callers Begin while the first two calls are held, and lets them go
// when all the others wait.
func (c *crowd) begun(t *testing.T, n int, begin func(i int) (client.BeginAnswer, error)) ([]client.BeginAnswer, []error) {
	t.Helper()
	return c.begunWaiting(t, n, n-2, begin)
}

// begunWaiting is begun where so many of the others wait for a call to share.
func (c *crowd) begunWaiting(t *testing.T, n, waiting int, begin func(i int) (client.BeginAnswer, error)) ([]client.BeginAnswer, []error) {
	t.Helper()
	answers, errs := make([]client.BeginAnswer, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { answers[i], errs[i] = begin(i) })
		if i < 2 {
			if got := recv(t, c.came, "a call"); got != "Begin" {
				t.Fatalf("the first calls are %s, want Begin", got)
			}
		}
	}
	c.awaitWaiting(t, waiting)
	c.letGo("Begin")
	all.Wait()
	return answers, errs
}

// awaitWaiting waits until n Begins wait for a call to share.
func (c *crowd) awaitWaiting(t *testing.T, n int) {
	t.Helper()
	await(t, "Begins", c.keeper.BeginsWaiting, n)
}

func await(t *testing.T, what string, waiting func() int, n int) {
	t.Helper()
	for end := time.Now().Add(hang); waiting() != n; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d %s wait for a call to share, want %d", waiting(), what, n)
		}
	}
}

func TestCallersThatWaitShareACallAndEachRunsOnce(t *testing.T) {
	c := newCrowd(t, "Begin")
	const callers = 40
	runs := make([]int, callers)
	values := make([]string, callers)
	errs := make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			values[i], errs[i] = client.Do(t.Context(), c.keeper, keyNumber(i), func(_ context.Context, a *client.Attempt) (string, error) {
				runs[i]++
				return fmt.Sprint(a.Key().ID, " by ", a.Number()), nil
			})
		})
		if i < 2 {
			recv(t, c.came, "a call")
		}
	}
	c.awaitWaiting(t, callers-2)
	c.letGo("Begin")
	all.Wait()
	for i := range callers {
		if want := fmt.Sprintf("k-%d by 1", i); errs[i] != nil || values[i] != want || runs[i] != 1 {
			t.Errorf("caller %d ran %d times and got %q, %v, want %q once", i, runs[i], values[i], errs[i], want)
		}
		if rec := c.record(keyNumber(i)); rec == nil || rec.State != oncekeeper.StoredCompleted || !strings.Contains(string(rec.Response.Body), fmt.Sprint("k-", i, " ")) {
			t.Errorf("the record of caller %d is %+v", i, rec)
		}
	}
	if c.seen("Begin") != 2 || c.seen("BatchBegin") != 1 {
		t.Errorf("%d Begins and %d BatchBegins, want the two that came first and one for the rest", c.seen("Begin"), c.seen("BatchBegin"))
	}
}

func TestALoneCallerWithCoalescingMakesTheCallsThatItWouldWithout(t *testing.T) {
	w := newWorld(t, client.WithCoalescing())
	if _, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (int, error) { return 1, nil }); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(w.calls) != "[Begin Complete]" {
		t.Errorf("calls %v, want Begin and Complete", w.calls)
	}
}

// What a shared call lost, each asks for again under its own call id.
func TestALostAnswerOfASharedCallIsAskedForAgainByEach(t *testing.T) {
	c := newCrowd(t, "Begin")
	var lost sync.Once
	c.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		err := call(ctx)
		if method == "BatchBegin" {
			lost.Do(func() { err = errCut })
		}
		return err
	}
	c.keeper = client.New(c.conn, append(c.options, client.WithRetryBudget(1000, 1))...)
	stop := make(chan struct{})
	defer close(stop)
	go c.clock.keepPassing(50*time.Millisecond, 100*time.Millisecond, stop)
	answers, errs := c.begun(t, 12, func(i int) (client.BeginAnswer, error) {
		return c.keeper.Begin(t.Context(), client.BeginRequest{Key: keyNumber(i)})
	})
	for i, a := range answers {
		if errs[i] != nil || a.Grant == nil || a.Grant.Number != 1 || a.Grant.Token != c.record(keyNumber(i)).Token {
			t.Errorf("caller %d got %+v, %v, want its first grant", i, a, errs[i])
		}
	}
}

// keepPassing lets time pass whenever something waits for between least and most.
func (c *testClock) keepPassing(least, most time.Duration, stop <-chan struct{}) {
	for {
		d, changed, ok := c.find(least, most)
		if ok {
			c.Advance(d)
			continue
		}
		select {
		case <-changed:
		case <-stop:
			return
		}
	}
}

func TestEachWhoSharesACallHasItsOwnRefusal(t *testing.T) {
	c := newCrowd(t, "Begin")
	c.completed(t, keyNumber(3), 1)
	_, errs := c.begun(t, 8, func(i int) (client.BeginAnswer, error) {
		req := client.BeginRequest{Key: keyNumber(i)}
		if i == 3 {
			req.Fingerprint = []byte("another request")
		}
		if i == 6 {
			req.MaxAttempts = -1
		}
		return c.keeper.Begin(t.Context(), req)
	})
	for i, err := range errs {
		if want := map[int]error{3: oncekeeper.ErrFingerprintMismatch, 6: oncekeeper.ErrInvalidRequest}[i]; !errors.Is(err, want) {
			t.Errorf("caller %d got %v, want %v", i, err, want)
		}
	}
	if v := client.FieldViolations(errs[6]); len(v) != 1 || v[0].Field != "max_attempts" {
		t.Errorf("the invalid one is told of %v, want its max_attempts", v)
	}
	if client.Operation(errs[3]) != key.Operation {
		t.Errorf("the refusal is about %q, want %q", client.Operation(errs[3]), key.Operation)
	}
}

// plain is a client that shares nothing.
func (c *crowd) plain() *client.Client { return client.New(c.conn, client.WithClock(c.clock)) }

// completed has another caller run k, past the gate, with a response of so many
// bytes.
func (c *crowd) completed(t *testing.T, k oncekeeper.Key, bytes int) {
	t.Helper()
	gate := c.gate
	c.gate = nil
	defer func() { c.gate = gate }()
	answer, err := c.plain().Begin(t.Context(), client.BeginRequest{Key: k})
	if err != nil || answer.Grant == nil {
		t.Fatalf("the other caller got %+v, %v", answer, err)
	}
	if _, err := c.plain().Complete(t.Context(), k, answer.Grant.Token, &oncekeeper.Response{Body: make([]byte, bytes)}); err != nil {
		t.Fatal(err)
	}
}

func TestAnErrorThatMayBeOneCallersDoingIsNobodyElses(t *testing.T) {
	for name, whole := range map[string]error{
		"invalid":       statusOf(oncekeeper.ErrInvalidRequest, wire.Details{}),
		"too large":     status.Error(codes.ResourceExhausted, "message larger than max"),
		"not known":     status.Error(codes.Unimplemented, "unknown method BatchBegin"),
		"a fault":       status.Error(codes.Internal, "a panic"),
		"not permitted": statusOf(oncekeeper.ErrPermissionDenied, wire.Details{}),
		"too few":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, "Begin")
			c.between = func(ctx context.Context, method string, call func(context.Context) error) error {
				if method == "BatchBegin" {
					return whole // nil: an empty answer
				}
				return call(ctx)
			}
			answers, errs := c.begun(t, 6, func(i int) (client.BeginAnswer, error) {
				return c.keeper.Begin(t.Context(), client.BeginRequest{Key: keyNumber(i)})
			})
			for i, a := range answers {
				if errs[i] != nil || a.Grant == nil {
					t.Errorf("caller %d got %+v, %v, want its grant", i, a, errs[i])
				}
			}
			if c.seen("Begin") != 6 {
				t.Errorf("%d Begins, want each alone", c.seen("Begin"))
			}
		})
	}
}

func TestAnAnswerThatDoesNotFitIsAskedForAlone(t *testing.T) {
	c := newCrowd(t, "Begin")
	c.completed(t, keyNumber(4), 1<<19)
	c.batchAnswers = 1 << 10
	answers, errs := c.begun(t, 6, func(i int) (client.BeginAnswer, error) {
		return c.keeper.Begin(t.Context(), client.BeginRequest{Key: keyNumber(i)})
	})
	if o := answers[4].Outcome; errs[4] != nil || o == nil || len(o.Response.Body) != 1<<19 {
		t.Errorf("the caller whose answer is large got %+v, %v", answers[4], errs[4])
	}
	if c.seen("Begin") != 4 || c.seen("BatchBegin") != 1 {
		t.Errorf("%d Begins and %d BatchBegins, want the one before, the two that came first and the large one, and one for the rest", c.seen("Begin"), c.seen("BatchBegin"))
	}
}

// A granted Begin whose caller has left is given back, and the others run.
func TestACallerThatLeavesASharedCallDisturbsNobodyAndItsGrantIsGivenBack(t *testing.T) {
	c := newCrowd(t, "Begin")
	leaver, leave := context.WithCancel(t.Context())
	defer leave()
	c.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		if method == "BatchBegin" {
			leave()
		}
		return call(ctx)
	}
	answers, errs := c.begun(t, 6, func(i int) (client.BeginAnswer, error) {
		ctx := t.Context()
		if i == 3 {
			ctx = leaver
		}
		return c.keeper.Begin(ctx, client.BeginRequest{Key: keyNumber(i), Hold: true})
	})
	for i, a := range answers {
		if i == 3 {
			if !errors.Is(errs[i], context.Canceled) {
				t.Errorf("who left got %+v, %v, want context.Canceled", a, errs[i])
			}
			continue
		}
		if errs[i] != nil || a.Grant == nil {
			t.Errorf("caller %d got %+v, %v, want its grant", i, a, errs[i])
		}
	}
	c.awaitState(t, keyNumber(3), oncekeeper.StoredReleased)
}

func TestCallersShareACallOnlyWithTheSameMetadataAndItTravels(t *testing.T) {
	c := newCrowd(t, "Begin")
	var mu sync.Mutex
	sent := map[string]int{}
	c.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		if method == "BatchBegin" {
			md, _ := metadata.FromOutgoingContext(ctx)
			mu.Lock()
			sent[strings.Join(md.Get("authorization"), ",")]++
			mu.Unlock()
		}
		return call(ctx)
	}
	_, errs := c.begun(t, 12, func(i int) (client.BeginAnswer, error) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", fmt.Sprint("caller ", i%2))
		return c.keeper.Begin(ctx, client.BeginRequest{Key: keyNumber(i)})
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if len(sent) != 2 || sent["caller 0"] != 1 || sent["caller 1"] != 1 {
		t.Errorf("shared calls went with %v, want one of each caller", sent)
	}
}

func TestACallThatMayBeHeldGoesAlone(t *testing.T) {
	c := newCrowd(t, "Begin")
	_, errs := c.begunWaiting(t, 6, 3, func(i int) (client.BeginAnswer, error) {
		req := client.BeginRequest{Key: keyNumber(i)}
		if i == 5 {
			req.Wait = time.Second
		}
		return c.keeper.Begin(t.Context(), req)
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if c.seen("Begin") != 3 || c.seen("BatchBegin") != 1 {
		t.Errorf("%d Begins and %d BatchBegins, want the two that came first and the one that waits, and one for the rest", c.seen("Begin"), c.seen("BatchBegin"))
	}
}
