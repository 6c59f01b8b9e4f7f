package inbox_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
	"github.com/oncekeeper/oncekeeper/client/inbox"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

// subscriber is an inbox on a service of its own, and counts what was run.
type subscriber struct {
	*inbox.Inbox
	keeper *oncetest.Server
	runs   int
}

func subscribe(t *testing.T, req client.Request) *subscriber {
	t.Helper()
	s := &subscriber{keeper: oncetest.Start(t)}
	s.Inbox = s.named(t, "invoices", req)
	return s
}

func (s *subscriber) named(t *testing.T, name string, req client.Request) *inbox.Inbox {
	t.Helper()
	i, err := inbox.New(s.keeper.Client(), inbox.Config{
		Tenant: "acme", Subscriber: name, Request: req, Clock: s.keeper.Clock, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// giving is a handler that gives err.
func (s *subscriber) giving(err error) inbox.Handler {
	return func(context.Context, *client.Attempt) error {
		s.runs++
		return err
	}
}

func (s *subscriber) record(id string) *client.Record {
	return s.keeper.Record(oncekeeper.Key{Tenant: "acme", Operation: "inbox/invoices", ID: id})
}

// must fails the test where r is not the verdict for the reason, or has no delay
// where it is to come later.
func must(t *testing.T, when string, r inbox.Result, verdict inbox.Verdict, reason inbox.Reason) {
	t.Helper()
	if r.Verdict != verdict || r.Reason != reason {
		t.Fatalf("%s it is %v (%v): %v; want %v (%v)", when, r.Verdict, r.Reason, r.Err, verdict, reason)
	}
	if later := verdict == inbox.Later; (r.Delay > 0) != later {
		t.Errorf("%s the delay is %v", when, r.Delay)
	}
	if fine := verdict == inbox.Handled || verdict == inbox.Duplicate; (r.Err == nil) != fine {
		t.Errorf("%s the error is %v", when, r.Err)
	}
}

var m = inbox.Message{ID: "m-1", Fingerprint: fingerprint.Raw([]byte("an order"))}

func TestAMessageIsHandledOnceForEachSubscriber(t *testing.T) {
	s := subscribe(t, client.Request{})
	must(t, "at first", s.Handle(t.Context(), m, s.giving(nil)), inbox.Handled, inbox.NoReason)
	for range 3 {
		must(t, "delivered again", s.Handle(t.Context(), m, s.giving(nil)), inbox.Duplicate, inbox.NoReason)
		must(t, "replayed from a log", s.HandleWait(t.Context(), m, s.giving(nil)), inbox.Duplicate, inbox.NoReason)
	}
	must(t, "for another subscriber", s.named(t, "mail", client.Request{}).Handle(t.Context(), m, s.giving(nil)), inbox.Handled, inbox.NoReason)
	must(t, "of another id", s.Handle(t.Context(), inbox.Message{ID: "m-2"}, s.giving(nil)), inbox.Handled, inbox.NoReason)
	if s.runs != 3 {
		t.Errorf("the handlers ran %d times, want 3", s.runs)
	}
}

func TestADeliveryWhileAnotherIsHandledUsesNothingUp(t *testing.T) {
	s := subscribe(t, client.Request{MaxAttempts: 1})
	r := s.Handle(t.Context(), m, func(context.Context, *client.Attempt) error {
		for range 20 {
			r := s.Handle(t.Context(), m, s.giving(nil))
			must(t, "meanwhile", r, inbox.Later, inbox.InProgress)
			if r.Delay > time.Minute {
				t.Errorf("it is to come back in %v", r.Delay)
			}
		}
		return nil
	})
	must(t, "the first", r, inbox.Handled, inbox.NoReason)
	must(t, "after it", s.Handle(t.Context(), m, s.giving(nil)), inbox.Duplicate, inbox.NoReason)
	if rec := s.record("m-1"); s.runs != 0 || rec.Number != 1 {
		t.Errorf("of 21 deliveries %d more ran, and %d attempts are counted; want none and 1", s.runs, rec.Number)
	}
}

func TestWhatAHandlerSaysDecidesWhatBecomesOfTheMessage(t *testing.T) {
	broken := errors.New("the database is away")
	closed := status.Error(codes.FailedPrecondition, "the account is closed")
	type delivery struct {
		gives   error // "not run" where it must not run
		verdict inbox.Verdict
		reason  inbox.Reason
	}
	notRun := errors.New("this must not be run")
	for name, c := range map[string]struct {
		req        client.Request
		deliveries []delivery
	}{
		"nothing was done": {client.Request{}, []delivery{
			{oncekeeper.NotApplied(broken), inbox.Later, inbox.Failed}, {nil, inbox.Handled, inbox.NoReason}, {notRun, inbox.Duplicate, inbox.NoReason},
		}},
		"nobody knows": {client.Request{}, []delivery{
			{broken, inbox.Later, inbox.Failed}, {nil, inbox.Handled, inbox.NoReason}, {notRun, inbox.Duplicate, inbox.NoReason},
		}},
		"nobody knows, and it is to be held": {client.Request{Hold: true}, []delivery{
			{broken, inbox.DeadLetter, inbox.Unresolved}, {notRun, inbox.DeadLetter, inbox.Unresolved},
		}},
		"it never will succeed": {client.Request{}, []delivery{
			{oncekeeper.Final(closed), inbox.DeadLetter, inbox.Final}, {notRun, inbox.DeadLetter, inbox.Final},
		}},
		"an error of Oncekeeper is never final": {client.Request{}, []delivery{
			{oncekeeper.Final(oncekeeper.ErrInProgress), inbox.Later, inbox.Failed}, {nil, inbox.Handled, inbox.NoReason},
		}},
		"a mismatch further down is not the message's": {client.Request{}, []delivery{
			{oncekeeper.ErrFingerprintMismatch, inbox.Later, inbox.Failed}, {nil, inbox.Handled, inbox.NoReason},
		}},
		"its attempts are used up": {client.Request{MaxAttempts: 2}, []delivery{
			{oncekeeper.NotApplied(broken), inbox.Later, inbox.Failed}, {oncekeeper.NotApplied(broken), inbox.Later, inbox.Failed},
			{notRun, inbox.DeadLetter, inbox.Exhausted}, {notRun, inbox.DeadLetter, inbox.Exhausted},
		}},
		"its attempts are used up, and an effect may stand": {client.Request{MaxAttempts: 2}, []delivery{
			{broken, inbox.Later, inbox.Failed}, {oncekeeper.NotApplied(broken), inbox.Later, inbox.Failed},
			{notRun, inbox.DeadLetter, inbox.Unresolved},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := subscribe(t, c.req)
			for n, d := range c.deliveries {
				before := s.runs
				r := s.Handle(t.Context(), m, s.giving(d.gives))
				must(t, "at delivery "+string(rune('1'+n)), r, d.verdict, d.reason)
				if ran := s.runs > before; ran == (d.gives == notRun) {
					t.Errorf("delivery %d ran the handler: %t", n+1, ran)
				}
				if r.Err != nil && oncekeeper.SettlementOf(r.Err) != oncekeeper.SettledUnknown {
					t.Errorf("delivery %d gives %v, which still speaks for an attempt", n+1, r.Err)
				}
				if d.gives != nil && d.gives != notRun && !errors.Is(r.Err, d.gives) {
					t.Errorf("delivery %d gives %v, want what the handler gave", n+1, r.Err)
				}
			}
		})
	}
}

func TestTheDelayAfterAFailureGrowsWithTheAttempts(t *testing.T) {
	s := subscribe(t, client.Request{})
	for n, most := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second} {
		r := s.Handle(t.Context(), m, s.giving(oncekeeper.NotApplied(errors.New("not now"))))
		must(t, "failed", r, inbox.Later, inbox.Failed)
		if r.Delay < inbox.DefaultMinDelay || r.Delay > most {
			t.Errorf("after attempt %d the delay is %v, want %v to %v", n+1, r.Delay, inbox.DefaultMinDelay, most)
		}
	}
}

func TestAnotherMessageUnderAnOldIDIsADeadLetter(t *testing.T) {
	s := subscribe(t, client.Request{})
	must(t, "the first", s.Handle(t.Context(), m, s.giving(nil)), inbox.Handled, inbox.NoReason)
	other := inbox.Message{ID: m.ID, Fingerprint: fingerprint.Raw([]byte("another order"))}
	r := s.Handle(t.Context(), other, s.giving(nil))
	must(t, "the other", r, inbox.DeadLetter, inbox.Refused)
	if !errors.Is(r.Err, oncekeeper.ErrFingerprintMismatch) || s.runs != 1 {
		t.Errorf("it gives %v after %d runs", r.Err, s.runs)
	}
}

func TestAnIDThatIsNoKeysIsRefusedAndNeverCut(t *testing.T) {
	s := subscribe(t, client.Request{})
	long := strings.Repeat("x", oncekeeper.MaxIDBytes)
	must(t, "the longest", s.Handle(t.Context(), inbox.Message{ID: long}, s.giving(nil)), inbox.Handled, inbox.NoReason)
	for name, id := range map[string]string{"empty": "", "too long": long + "y", "white space": "m ", "a control": "m\x00", "not UTF-8": "\xff"} {
		r := s.Handle(t.Context(), inbox.Message{ID: id}, s.giving(nil))
		must(t, name, r, inbox.DeadLetter, inbox.Refused)
		must(t, name, s.HandleWait(t.Context(), inbox.Message{ID: id}, s.giving(nil)), inbox.DeadLetter, inbox.Refused)
	}
	digest := fingerprint.Raw([]byte(long + "y")).String()
	must(t, "its digest", s.Handle(t.Context(), inbox.Message{ID: digest}, s.giving(nil)), inbox.Handled, inbox.NoReason)
	if s.runs != 2 {
		t.Errorf("the handler ran %d times, want 2", s.runs)
	}
}

// A fault that every message has puts none of them among the dead letters.
func TestASubscriberWhoseNameIsNoneLosesNoMessage(t *testing.T) {
	s := subscribe(t, client.Request{})
	i := s.named(t, "invoices\x00", client.Request{})
	r := i.Handle(t.Context(), inbox.Message{ID: ""}, s.giving(nil))
	must(t, "with a control in its name", r, inbox.Later, inbox.Unavailable)
	if !errors.Is(r.Err, oncekeeper.ErrInvalidRequest) {
		t.Errorf("it gives %v", r.Err)
	}
}

func TestAConsumerThatDiedIsTakenOverWhenItsLeaseEnds(t *testing.T) {
	s := subscribe(t, client.Request{Lease: time.Minute})
	dead, err := s.keeper.Client().Begin(t.Context(), client.BeginRequest{
		Key: oncekeeper.Key{Tenant: "acme", Operation: "inbox/invoices", ID: m.ID}, Lease: time.Minute,
		FingerprintScheme: m.Fingerprint.Scheme, Fingerprint: m.Fingerprint.Digest,
	})
	if err != nil || dead.Grant == nil {
		t.Fatalf("Begin: %+v, %v", dead, err)
	}
	must(t, "while it lives", s.Handle(t.Context(), m, s.giving(nil)), inbox.Later, inbox.InProgress)
	s.keeper.Clock.Advance(time.Minute)
	r := s.Handle(t.Context(), m, func(_ context.Context, a *client.Attempt) error {
		if !a.Takeover() {
			t.Error("it is not told that it takes over")
		}
		return nil
	})
	must(t, "after it", r, inbox.Handled, inbox.NoReason)
}

func TestAConfigurationThatCannotBeKeptIsRefused(t *testing.T) {
	_, err := inbox.New(nil, inbox.Config{Request: client.Request{MaxAttempts: -1}, MinDelay: -1})
	for _, want := range []string{"the client", "Tenant", "Subscriber", "MaxAttempts", "MinDelay"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New gives %v; want a word about %s", err, want)
		}
	}
}
