package client_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/internal/fakereceipts"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

var errCrash = errors.New("the process died")

// shop is a world with a business database.
type shop struct {
	*world
	db        *fakereceipts.Store
	unsettled []client.Unsettled
}

func newShop(t *testing.T, opts ...client.Option) *shop {
	t.Helper()
	s := &shop{db: &fakereceipts.Store{}}
	told := client.WithUnsettled(func(u client.Unsettled) { s.unsettled = append(s.unsettled, u) })
	quiet := client.WithLogger(slog.New(slog.DiscardHandler))
	s.world = newWorld(t, append([]client.Option{told, quiet}, opts...)...)
	s.db.Now = s.clock.Now
	return s
}

// pay is the operation: its whole effect is in the transaction.
func (s *shop) pay(ctx context.Context, _ *client.Attempt) (string, error) {
	return fakereceipts.InTx(ctx, s.db, func(context.Context) (string, error) { return "paid", nil })
}

// do asks for the operation, which fn runs.
func (s *shop) do(ctx context.Context, fn func(context.Context, *client.Attempt) (string, error), opts ...client.DoOption) (string, error) {
	return client.Do(ctx, s.keeper, key, fn, append([]client.DoOption{
		client.WithReceipts(s.db), client.WithWait(0), client.WithFingerprint("raw", []byte("request")),
	}, opts...)...)
}

// mustPay asks for the operation, and fails the test where it does not answer
// "paid" once it happened once.
func (s *shop) mustPay(opts ...client.DoOption) {
	s.t.Helper()
	if got, err := s.do(s.t.Context(), s.pay, opts...); got != "paid" || err != nil {
		s.t.Errorf("Do = %q, %v; want paid", got, err)
	}
	s.mustHave(1)
}

func (s *shop) mustHave(effects int) {
	s.t.Helper()
	if n := s.db.Effects(key); n != effects {
		s.t.Errorf("it happened %d times, want %d", n, effects)
	}
}

func (s *shop) mustBe(state oncekeeper.StoredState) *oncekeeper.KeyRecord {
	s.t.Helper()
	rec := s.record(key)
	if rec == nil || rec.State != state {
		s.t.Fatalf("the record is %+v, want it in state %d", rec, state)
	}
	return rec
}

// begin grants an attempt that is never heard of again, and gives its token.
func (s *shop) begin(hold bool) int64 {
	s.t.Helper()
	a, err := s.keeper.Begin(s.t.Context(), client.BeginRequest{Key: key, FingerprintScheme: "raw", Fingerprint: []byte("request"), Hold: hold})
	if err != nil || a.Grant == nil {
		s.t.Fatalf("Begin = %+v, %v", a, err)
	}
	return a.Grant.Token
}

// applied is a receipt of the operation.
func applied(token int64) receipt.Receipt {
	return receipt.Receipt{
		Key: key, FingerprintScheme: "raw", Fingerprint: []byte("request"), Token: token,
		Response: &oncekeeper.Response{Body: []byte(`"paid"`), ContentType: client.ContentTypeJSON},
	}
}

// another is a receipt of another request under the key.
func anothers() receipt.Receipt {
	r := applied(1)
	r.Fingerprint = []byte("another request")
	return r
}

func declined(context.Context, *client.Attempt) (string, error) {
	return "", oncekeeper.Final(status.Error(codes.FailedPrecondition, "declined"))
}

func TestTheReceiptIsTheOutcomeWhateverTheFunctionDoesAfterIt(t *testing.T) {
	for name, after := range map[string]func() (string, error){
		"another value":    func() (string, error) { return "other", nil },
		"an error":         func() (string, error) { return "", errors.New("after the commit") },
		"a final error":    func() (string, error) { return "", oncekeeper.Final(errors.New("after the commit")) },
		"not applied":      func() (string, error) { return "", oncekeeper.NotApplied(errors.New("after the commit")) },
		"the value itself": func() (string, error) { return "paid", nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			got, err := s.do(t.Context(), func(ctx context.Context, a *client.Attempt) (string, error) {
				if _, err := s.pay(ctx, a); err != nil {
					t.Error(err)
				}
				return after()
			})
			if got != "paid" || err != nil {
				t.Errorf("Do = %q, %v; want what was committed", got, err)
			}
			if r := s.mustBe(oncekeeper.StoredCompleted).Response; string(r.Body) != `"paid"` {
				t.Errorf("kept %q", r.Body)
			}
			if s.db.Steps("close") != 0 {
				t.Error("a receipt that is applied was closed")
			}
			s.mustPay()
		})
	}
}

func TestAPanicAfterTheCommitLosesNothing(t *testing.T) {
	s := newShop(t)
	func() {
		defer func() { _ = recover() }()
		_, _ = s.do(t.Context(), func(ctx context.Context, a *client.Attempt) (string, error) {
			_, _ = s.pay(ctx, a)
			panic("after the commit")
		})
	}()
	s.mustBe(oncekeeper.StoredCompleted)
	s.mustPay()
}

func TestATakeoverLooksBeforeItRuns(t *testing.T) {
	s := newShop(t)
	token := s.begin(false)
	s.db.Put(applied(token)) // it committed, and died before it said so
	s.clock.Advance(fakeLease)
	got, err := s.do(t.Context(), func(context.Context, *client.Attempt) (string, error) {
		t.Error("it ran")
		return "", nil
	})
	if got != "paid" || err != nil {
		t.Errorf("Do = %q, %v", got, err)
	}
	s.mustBe(oncekeeper.StoredCompleted)
	if st := s.keeper.Stats(); st.Looked != 1 || st.LookedFound != 1 || st.Closed != 0 {
		t.Errorf("counted %+v", st)
	}
}

func TestATakeoverWithoutAReceiptRuns(t *testing.T) {
	s := newShop(t)
	s.begin(false)
	s.clock.Advance(fakeLease)
	s.mustPay()
}

func TestAHeldKeyIsCompletedWithItsReceipt(t *testing.T) {
	s := newShop(t)
	token := s.begin(true)
	s.clock.Advance(fakeLease)
	if _, err := s.do(t.Context(), s.pay, client.WithHold()); !errors.Is(err, oncekeeper.ErrUnresolved) {
		t.Errorf("without a receipt Do = %v, want ErrUnresolved", err)
	}
	s.mustHave(0)
	s.db.Put(applied(token)) // its transaction outlived it
	s.mustPay(client.WithHold())
	if rec := s.mustBe(oncekeeper.StoredCompleted); rec.Token != token {
		t.Errorf("completed by token %d, want %d", rec.Token, token)
	}
}

func TestWhereTheReceiptsCannotBeAskedNothingRuns(t *testing.T) {
	for _, hold := range []bool{false, true} {
		s := newShop(t)
		token := s.begin(hold)
		s.db.Put(applied(token))
		s.clock.Advance(fakeLease)
		s.db.OnStep(func(context.Context, string) error { return errors.New("the database is down") })
		_, err := s.do(t.Context(), s.pay)
		if !errors.Is(err, client.ErrReceipts) || !errors.Is(err, client.ErrUnavailable) || status.Code(err) != codes.Unavailable {
			t.Errorf("hold %v: Do = %v, want ErrReceipts and ErrUnavailable", hold, err)
		}
		if rec := s.record(key); hold && rec.State != oncekeeper.StoredPending || !hold && (!rec.NotRun || !rec.Takeover || rec.Attempt != 1) {
			t.Errorf("hold %v: it left %+v; want it held, or the takeover given back and still to come", hold, rec)
		}
		s.db.OnStep(nil)
		s.mustPay()
		s.mustBe(oncekeeper.StoredCompleted)
	}
}

func TestARefusalIsNotKeptBesideAnEffect(t *testing.T) {
	for name, refuse := range map[string]func(context.Context, *client.Attempt) (string, error){
		"final": declined,
		"retryable": func(context.Context, *client.Attempt) (string, error) {
			return "", oncekeeper.NotApplied(errors.New("not now"))
		},
		"a value without InTx": func(context.Context, *client.Attempt) (string, error) { return "nothing to pay", nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			got, err := s.do(t.Context(), func(ctx context.Context, a *client.Attempt) (string, error) {
				s.db.Put(applied(0)) // one that ran while the service was away
				return refuse(ctx, a)
			})
			if got != "paid" || err != nil {
				t.Errorf("Do = %q, %v; want what is there", got, err)
			}
			s.mustBe(oncekeeper.StoredCompleted)
			s.mustPay()
		})
	}
}

func TestARefusalKeepsItsAttemptFromHavingAnEffectLater(t *testing.T) {
	s := newShop(t)
	var zombie context.Context
	_, err := s.do(t.Context(), func(ctx context.Context, a *client.Attempt) (string, error) {
		zombie = context.WithoutCancel(ctx)
		return declined(ctx, a)
	})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("Do = %v, want what was declined", err)
	}
	if _, err := s.pay(zombie, nil); !errors.Is(err, oncekeeper.ErrFenced) {
		t.Errorf("the attempt's transaction gives %v after its refusal was kept, want ErrFenced", err)
	}
	s.mustHave(0)
	s.mustBe(oncekeeper.StoredFailed)
}

// openTransaction has a transaction of the key open until commit is called, and
// tells when closing meets it.
func (s *shop) openTransaction(token int64) (closing <-chan struct{}, commit func()) {
	s.t.Helper()
	reached, release, done, met := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	s.db.OnStep(func(_ context.Context, step string) error {
		switch step {
		case "commit":
			close(reached)
			<-release
		case "close":
			close(met)
		}
		return nil
	})
	codec := codecOf(`"paid"`)
	go func() {
		defer close(done)
		p := &receipt.Permit{Claim: receipt.Claim{Key: key, Token: token, FingerprintScheme: "raw", Fingerprint: []byte("request")}, Codec: codec}
		_, _ = fakereceipts.InTx(receipt.WithPermit(context.Background(), p), s.db, func(context.Context) (string, error) { return "paid", nil })
	}()
	recv(s.t, reached, "an open transaction")
	return met, func() {
		s.db.OnStep(nil)
		close(release)
		recv(s.t, done, "the transaction's end")
	}
}

type codecOf string

func (c codecOf) Encode(any) (*oncekeeper.Response, error) {
	return &oncekeeper.Response{Body: []byte(c), ContentType: client.ContentTypeJSON}, nil
}

func (c codecOf) Decode(*oncekeeper.Response, any) error { return nil }

func TestAClosingThatRunsOutOfTimeIsNoProof(t *testing.T) {
	const timeout = 7*time.Second + time.Millisecond
	s := newShop(t, client.WithReceiptTimeout(timeout))
	token := s.begin(false)
	s.clock.Advance(fakeLease)
	closing, commit := s.openTransaction(token)
	done := background(func() error {
		_, err := s.do(t.Context(), declined)
		return err
	})
	recv(t, closing, "the closing")
	s.clock.pass(t, timeout, timeout)
	if err := recv(t, done, "Do's return"); !errors.Is(err, client.ErrReceipts) || status.Code(err) != codes.Unavailable {
		t.Errorf("Do = %v; want ErrReceipts: it may yet happen", err)
	}
	if rec := s.mustBe(oncekeeper.StoredPending); rec.Last != oncekeeper.SettledUnknown {
		t.Errorf("the record is %+v, want an unknown outcome", rec)
	}
	commit()
	s.mustPay()
	s.mustBe(oncekeeper.StoredCompleted)
}

func TestAValueWhoseReceiptCannotBeClosedIsGivenAndNotKept(t *testing.T) {
	s := newShop(t)
	s.db.OnStep(func(_ context.Context, step string) error { return errors.New(step + ": the database is down") })
	got, err := s.do(t.Context(), func(context.Context, *client.Attempt) (string, error) { return "mailed", nil })
	if got != "mailed" || err != nil {
		t.Errorf("Do = %q, %v", got, err)
	}
	if rec := s.mustBe(oncekeeper.StoredPending); rec.Last != oncekeeper.SettledUnknown {
		t.Errorf("the record is %+v, want an unknown outcome", rec)
	}
	if len(s.unsettled) != 1 || !errors.Is(s.unsettled[0].Err, client.ErrReceipts) || s.unsettled[0].As != oncekeeper.SettledComplete {
		t.Errorf("told %+v, want that it could not be settled as complete", s.unsettled)
	}
}

func TestAFinalFailureThatNobodyKeepsIsNotGiven(t *testing.T) {
	s := newShop(t, client.WithSettleTimeout(time.Minute))
	s.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		if method == "Fail" {
			s.clock.Advance(time.Minute)
			return errCut
		}
		return call(ctx)
	}
	if _, err := s.do(t.Context(), declined); !errors.Is(err, client.ErrUnavailable) || status.Code(err) != codes.Unavailable {
		t.Errorf("Do = %v; want ErrUnavailable: the next attempt may pay", err)
	}
	s.between = nil
	s.clock.Advance(fakeLease)
	s.mustPay()
}

func TestATransactionThatRolledBackFreesTheKey(t *testing.T) {
	s := newShop(t)
	cause := errors.New("deadlock")
	_, err := s.do(t.Context(), func(ctx context.Context, _ *client.Attempt) (string, error) {
		return fakereceipts.InTx(ctx, s.db, func(context.Context) (string, error) { return "", cause })
	})
	if !errors.Is(err, cause) || oncekeeper.IsRolledBack(err) {
		t.Errorf("Do = %v; want the cause, without a mark that spoke for its own attempt", err)
	}
	s.mustBe(oncekeeper.StoredReleased)
	s.mustPay()
}

func TestACommitThatNobodyHeardOfIsFoundByClosing(t *testing.T) {
	s := newShop(t)
	s.db.OnStep(func(_ context.Context, step string) error {
		if step == "committed" {
			return errCrash
		}
		return nil
	})
	// A function that takes a lost answer for a refusal.
	got, err := s.do(t.Context(), func(ctx context.Context, a *client.Attempt) (string, error) {
		v, err := s.pay(ctx, a)
		return v, oncekeeper.NotApplied(err)
	})
	if got != "paid" || err != nil {
		t.Errorf("Do = %q, %v", got, err)
	}
	s.mustBe(oncekeeper.StoredCompleted)
}

// The service was lost, and its new clock is behind an earlier attempt's token.
func TestAFirstAttemptThatTheFloorRefusesIsToComeBack(t *testing.T) {
	s := newShop(t)
	s.db.Put(receipt.Receipt{Key: key, Floor: 1 << 52})
	for n := range 2 {
		_, err := s.do(t.Context(), s.pay)
		if !errors.Is(err, client.ErrUnavailable) || status.Code(err) != codes.Unavailable {
			t.Errorf("call %d: Do = %v, want ErrUnavailable", n, err)
		}
		s.mustBe(oncekeeper.StoredReleased)
	}
	s.mustHave(0)
}

func TestAReceiptOfAnotherRequestIsAMismatch(t *testing.T) {
	wants := func(t *testing.T, s *shop, err error) {
		t.Helper()
		if !errors.Is(err, oncekeeper.ErrFingerprintMismatch) {
			t.Errorf("Do = %v, want ErrFingerprintMismatch", err)
		}
		s.mustBe(oncekeeper.StoredReleased)
		if len(s.fails) != 1 || s.fails[0] != time.Microsecond {
			t.Errorf("released for %v, want the shortest retention", s.fails)
		}
	}
	t.Run("found by looking", func(t *testing.T) {
		s := newShop(t)
		s.begin(false)
		s.clock.Advance(fakeLease)
		s.db.Put(anothers())
		_, err := s.do(t.Context(), neverPay(t))
		wants(t, s, err)
	})
	t.Run("found by closing", func(t *testing.T) {
		s := newShop(t)
		s.db.Put(anothers())
		_, err := s.do(t.Context(), declined)
		wants(t, s, err)
	})
	t.Run("found by InTx", func(t *testing.T) {
		s := newShop(t)
		s.db.Put(anothers())
		_, err := s.do(t.Context(), s.pay)
		wants(t, s, err)
		s.mustHave(1)
	})
}

func neverPay(t *testing.T) func(context.Context, *client.Attempt) (string, error) {
	return func(context.Context, *client.Attempt) (string, error) {
		t.Error("it ran")
		return "", nil
	}
}

// The service was lost, and another request took the key.
func TestWhoseEffectStandsIsAnsweredThoughTheKeyIsAnothersByNow(t *testing.T) {
	s := newShop(t)
	if _, err := s.keeper.Begin(t.Context(), client.BeginRequest{Key: key, FingerprintScheme: "raw", Fingerprint: []byte("another request")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.do(t.Context(), neverPay(t)); !errors.Is(err, oncekeeper.ErrFingerprintMismatch) {
		t.Errorf("Do = %v, want ErrFingerprintMismatch", err)
	}
	s.db.Put(applied(1))
	s.mustPay()
}

func TestAResponseThatWasTooLargeForTheServiceIsGivenWholeByTheReceipt(t *testing.T) {
	s := newShop(t)
	s.maxBytes = 4
	for range 3 {
		s.mustPay()
	}
	if rec := s.mustBe(oncekeeper.StoredCompleted); !rec.Response.Omitted {
		t.Errorf("the service kept %+v; the test wants more than it keeps", rec.Response)
	}
}

func TestAGrantThatIsNotRunIsNoAttempt(t *testing.T) {
	s := newShop(t)
	ctx, leave := context.WithCancel(t.Context())
	s.loseBegin("Begin", 1, leave, errLeft)
	s.db.Put(applied(0)) // it ran while the service was away
	if _, err := s.do(ctx, neverPay(t), client.WithMaxAttempts(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v", err)
	}
	s.awaitState(t, key, oncekeeper.StoredReleased)
	s.between = nil
	s.mustPay(client.WithMaxAttempts(1)) // no refusal beside the effect
	if rec := s.mustBe(oncekeeper.StoredCompleted); rec.Attempt != 1 {
		t.Errorf("it took %d attempts, want one", rec.Attempt)
	}
}

func TestAnInnerDoDoesNotTakeTheLeaveOfTheOuterOne(t *testing.T) {
	s := newShop(t)
	inner := key
	inner.ID = "inner"
	got, err := s.do(t.Context(), func(ctx context.Context, a *client.Attempt) (string, error) {
		_, err := client.Do(ctx, s.keeper, inner, func(ctx context.Context, _ *client.Attempt) (int, error) {
			if receipt.PermitFrom(ctx) != nil {
				t.Error("the inner function may write the outer's receipt")
			}
			return 1, nil
		})
		if err != nil {
			t.Error(err)
		}
		return s.pay(ctx, a)
	})
	if got != "paid" || err != nil {
		t.Errorf("Do = %q, %v", got, err)
	}
}

func TestTheLeaseIsKeptNoLongerThanTheFunctionMayRun(t *testing.T) {
	s := newShop(t)
	over, release := make(chan error), make(chan struct{})
	done := background(func() error {
		_, err := s.do(t.Context(), func(ctx context.Context, _ *client.Attempt) (string, error) {
			<-ctx.Done()
			over <- context.Cause(ctx)
			<-release // it does not heed its context
			return "", errCrash
		}, client.WithMaxRunTime(time.Second))
		return err
	})
	s.clock.pass(t, time.Second, time.Second)
	if err := recv(t, over, "the end of the run time"); !errors.Is(err, client.ErrRunTime) {
		t.Errorf("its context ended with %v", err)
	}
	s.clock.awaitNone(t, fakeLease/4, fakeLease) // nothing waits to renew
	s.clock.Advance(fakeLease)
	s.mustPay()
	close(release)
	if err := recv(t, done, "Do's return"); !errors.Is(err, oncekeeper.ErrAlreadySettled) && !errors.Is(err, oncekeeper.ErrFenced) {
		t.Errorf("the first Do = %v, want that another has the key", err)
	}
}
