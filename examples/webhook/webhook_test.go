package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

var secret, otherSecret = []byte("0123456789abcdef01234567"), []byte("another secret of 24 byte")

// shop is a receiver and its worker on a clock that the test moves.
type shop struct {
	*receiver
	*worker
	keeper  *oncetest.Server
	pending memoryQueue
	pushes  int
	// refuses and dies are what becomes of the next pushes: refused, or pushed by a
	// process that is not heard of again.
	refuses, dies int
}

func open(t *testing.T) *shop {
	t.Helper()
	s := &shop{keeper: oncetest.Start(t), pending: make(memoryQueue, 64)}
	s.attend(t, s.keeper.Client())
	return s
}

func (s *shop) attend(t *testing.T, keeper *client.Client) {
	t.Helper()
	var err error
	s.receiver, s.worker, err = assemble(keeper, verifier{secrets: [][]byte{secret}, tolerance: 5 * time.Minute, now: s.keeper.Clock.Now}, s)
	if err != nil {
		t.Fatal(err)
	}
}

func (s *shop) Push(ctx context.Context, w work) error {
	s.pushes++
	if s.refuses > 0 {
		s.refuses--
		return errFull
	}
	if err := s.pending.Push(ctx, w); err != nil || s.dies == 0 {
		return err
	}
	s.dies--
	return errors.New("it is pushed, and nobody is left to say so")
}

// delivery is what a sender sends: signed now, by the right secret, unless it says.
type delivery struct {
	id, body string
	age      time.Duration
	secret   []byte
	change   func(http.Header)
}

func (s *shop) deliver(t *testing.T, d delivery) *httptest.ResponseRecorder {
	t.Helper()
	if d.secret == nil {
		d.secret = secret
	}
	timestamp := strconv.FormatInt(s.keeper.Clock.Now().Add(-d.age).Unix(), 10)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(d.body))
	r.Header.Set(headerID, d.id)
	r.Header.Set(headerTimestamp, timestamp)
	r.Header.Set(headerSignature, signature(d.secret, d.id, timestamp, []byte(d.body)))
	if d.change != nil {
		d.change(r.Header)
	}
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, r)
	return answer
}

func (s *shop) must(t *testing.T, when string, d delivery, code int) {
	t.Helper()
	answer := s.deliver(t, d)
	if answer.Code != code {
		t.Errorf("%s: answered %d %s, want %d", when, answer.Code, strings.TrimSpace(answer.Body.String()), code)
	}
	if again := answer.Header().Get("Retry-After"); (again != "") != (code == http.StatusServiceUnavailable) {
		t.Errorf("%s: Retry-After is %q", when, again)
	}
}

// drain does all that is queued.
func (s *shop) drain(t *testing.T) account {
	t.Helper()
	for len(s.pending) > 0 {
		s.work(t.Context(), <-s.pending)
	}
	return s.accounts.of("acme")
}

func payment(amount, version int) string {
	return fmt.Sprintf(`{"account":"acme","amount":%d,"version":%d,"email":"v%d@acme.example"}`, amount, version, version)
}

func TestADeliveryIsQueuedOnceAndAnsweredBeforeItIsWorkedOn(t *testing.T) {
	s := open(t)
	for range 3 {
		s.must(t, "delivered", delivery{id: "d-1", body: payment(10, 1)}, http.StatusNoContent)
		s.keeper.Clock.Advance(time.Minute) // the sender's next try is signed anew
	}
	if s.pushes != 1 || s.accounts.done != 0 {
		t.Errorf("it was queued %d times and worked on %d times before the answer; want 1 and 0", s.pushes, s.accounts.done)
	}
	if got := s.drain(t); got.Balance != 10 {
		t.Errorf("the account is %+v", got)
	}
	s.must(t, "replayed within the tolerance", delivery{id: "d-1", body: payment(10, 1), age: 4 * time.Minute}, http.StatusNoContent)
	if got := s.drain(t); got.Balance != 10 {
		t.Errorf("after a replay the account is %+v", got)
	}
}

func TestDeliveriesAtOnceAreQueuedOnce(t *testing.T) {
	s := open(t)
	var all sync.WaitGroup
	codes := make([]int, 8)
	for n := range codes {
		all.Go(func() { codes[n] = s.deliver(t, delivery{id: "d-1", body: payment(10, 1)}).Code })
	}
	all.Wait()
	for _, code := range codes {
		if code != http.StatusNoContent && code != http.StatusServiceUnavailable {
			t.Errorf("one is answered %d", code)
		}
	}
	s.must(t, "afterwards", delivery{id: "d-1", body: payment(10, 1)}, http.StatusNoContent)
	if got := s.drain(t); s.pushes != 1 || got.Balance != 10 {
		t.Errorf("it was queued %d times, and the account is %+v", s.pushes, got)
	}
}

func TestEventsMayComeInAnyOrder(t *testing.T) {
	s := open(t)
	for _, version := range []int{3, 1, 2, 3, 1} {
		s.must(t, "delivered", delivery{id: fmt.Sprint("d-", version), body: payment(10, version)}, http.StatusNoContent)
		s.drain(t)
	}
	if got, want := s.accounts.of("acme"), (account{Balance: 30, Version: 3, Email: "v3@acme.example"}); got != want {
		t.Errorf("the account is %+v, want %+v", got, want)
	}
}

func TestWhatCannotBeTrustedIsRefusedAndLeavesNothing(t *testing.T) {
	set := func(name string, values ...string) func(http.Header) {
		return func(h http.Header) { h[name] = values }
	}
	good := signature(secret, "d-1", "1893456000", []byte(payment(10, 1))) // at oncetest.Epoch
	for name, d := range map[string]delivery{
		"another's secret":           {secret: otherSecret},
		"another id":                 {change: set(headerID, "d-2")},
		"another time":               {change: set(headerTimestamp, "1893456001")},
		"no signature":               {change: set(headerSignature)},
		"an empty signature":         {change: set(headerSignature, "")},
		"a signature cut short":      {change: set(headerSignature, good[:len(good)-1])},
		"a signature of no scheme":   {change: set(headerSignature, strings.TrimPrefix(good, signatureScheme))},
		"two signature headers":      {change: set(headerSignature, good, good)},
		"too many signatures":        {change: set(headerSignature, strings.Repeat("v1,AAAA ", maxSignatures)+good)},
		"no id":                      {change: set(headerID)},
		"two ids":                    {change: set(headerID, "d-1", "d-1")},
		"no time":                    {change: set(headerTimestamp)},
		"a time that is none":        {change: set(headerTimestamp, "soon")},
		"a time written another way": {change: set(headerTimestamp, "+1893456000")},
		"too old":                    {age: 5*time.Minute + time.Second},
		"too far ahead":              {age: -5*time.Minute - time.Second},
		"an id that hides a time":    {id: "d-1.1893456000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			if d.id == "" {
				d.id = "d-1"
			}
			d.body = payment(10, 1)
			s.must(t, name, d, http.StatusUnauthorized)
			s.must(t, "the real one", delivery{id: "d-1", body: payment(10, 1)}, http.StatusNoContent)
			if s.pushes != 1 {
				t.Errorf("%d deliveries were queued, want the real one", s.pushes)
			}
		})
	}
	s := open(t)
	if got := s.deliver(t, delivery{id: "d-1", body: payment(10, 1), change: set(headerSignature, good)}); got.Code != http.StatusNoContent {
		t.Errorf("the signature that the cases above spoil is answered %d itself", got.Code)
	}
}

func TestABodyThatIsChangedOnTheWayIsRefused(t *testing.T) {
	s := open(t)
	timestamp := strconv.FormatInt(s.keeper.Clock.Now().Unix(), 10)
	for _, body := range []string{payment(1000, 1), payment(10, 1) + " ", ""} {
		s.must(t, body, delivery{id: "d-1", body: body, change: func(h http.Header) {
			h.Set(headerSignature, signature(secret, "d-1", timestamp, []byte(payment(10, 1))))
		}}, http.StatusUnauthorized)
	}
	if s.pushes != 0 {
		t.Errorf("%d were queued", s.pushes)
	}
}

func TestAnotherBodyUnderAnOldIDIsRefusedThoughItIsSigned(t *testing.T) {
	s := open(t)
	s.must(t, "the first", delivery{id: "d-1", body: payment(10, 1)}, http.StatusNoContent)
	s.must(t, "the other", delivery{id: "d-1", body: payment(1000, 1)}, http.StatusUnprocessableEntity)
	if got := s.drain(t); got.Balance != 10 {
		t.Errorf("the account is %+v", got)
	}
}

func TestASecretIsReplacedWhileBothAreTaken(t *testing.T) {
	s := open(t)
	s.verifier.secrets = [][]byte{otherSecret, secret}
	s.must(t, "by the old one", delivery{id: "d-1", body: payment(10, 1)}, http.StatusNoContent)
	s.must(t, "by the new one", delivery{id: "d-2", body: payment(10, 2), secret: otherSecret}, http.StatusNoContent)
	s.must(t, "by both", delivery{id: "d-3", body: payment(10, 3), secret: otherSecret, change: func(h http.Header) {
		h.Set(headerSignature, "v1a,of-another-kind "+h.Get(headerSignature))
	}}, http.StatusNoContent)
	if got := s.drain(t); got.Balance != 30 {
		t.Errorf("the account is %+v", got)
	}
}

func TestWhatCannotBeQueuedIsNotAcknowledged(t *testing.T) {
	s := open(t)
	s.refuses = 2
	for range 2 {
		s.must(t, "while the queue is full", delivery{id: "d-1", body: payment(10, 1)}, http.StatusServiceUnavailable)
	}
	s.must(t, "with room again", delivery{id: "d-1", body: payment(10, 1)}, http.StatusNoContent)
	if got := s.drain(t); got.Balance != 10 {
		t.Errorf("the account is %+v", got)
	}
}

func TestWhatAReceiverThatDiedHadQueuedIsWorkedOnOnce(t *testing.T) {
	s := open(t)
	s.dies = 1
	s.must(t, "queued, and not recorded", delivery{id: "d-1", body: payment(10, 1)}, http.StatusServiceUnavailable)
	s.must(t, "sent again", delivery{id: "d-1", body: payment(10, 1)}, http.StatusNoContent)
	if queued := len(s.pending); queued != 2 {
		t.Fatalf("%d are queued, want 2: the receiver cannot know", queued)
	}
	if got := s.drain(t); got.Balance != 10 {
		t.Errorf("the account is %+v", got)
	}
}

func TestWhileOncekeeperIsAwayNothingIsAcknowledged(t *testing.T) {
	s := open(t)
	s.attend(t, s.keeper.Client(client.WithRetryBudget(0, 0)))
	s.keeper.Down()
	s.must(t, "away", delivery{id: "d-1", body: payment(10, 1)}, http.StatusServiceUnavailable)
	if s.keeper.Up(); s.pushes != 0 {
		t.Error("it was queued all the same")
	}
	s.must(t, "back", delivery{id: "d-1", body: payment(10, 1)}, http.StatusNoContent)
}

func TestWhatIsNoDeliveryIsToldSo(t *testing.T) {
	s := open(t)
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	if answer.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET is answered %d", answer.Code)
	}
	s.must(t, "too large", delivery{id: "d-1", body: strings.Repeat(" ", maxBody+1)}, http.StatusRequestEntityTooLarge)
	s.must(t, "the largest", delivery{id: "d-1", body: strings.Repeat(" ", maxBody)}, http.StatusNoContent)
	s.drain(t) // it is no event: a dead letter, and the worker goes on
	s.must(t, "an event", delivery{id: "d-2", body: payment(10, 1)}, http.StatusNoContent)
	if got := s.drain(t); got.Balance != 10 {
		t.Errorf("the account is %+v", got)
	}
}

// A vector of the specification's own libraries.
func TestASignatureIsWhatStandardWebhooksHasIt(t *testing.T) {
	known, err := parseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := signature(known, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
	for _, text := range []string{"", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_not base64 at all, whatever it says"} {
		if _, err := parseSecret(text); err == nil {
			t.Errorf("%q is taken for a secret", text)
		}
	}
}

func TestTheDemonstrationEndsAsItSays(t *testing.T) {
	var out strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := run(ctx, &out); err != nil {
		t.Fatal(err)
	}
	want := `the newer event first      204 No Content
the same once more         204 No Content
the older event after it   204 No Content
resent by an operator      204 No Content
another body, same id      422 Unprocessable Entity
recorded an hour ago       401 Unauthorized
signed by nobody           401 Unauthorized

balance 15 (want 15), email new@acme.example (want new@acme.example)
`
	if out.String() != want {
		t.Errorf("it prints\n%s\nwant\n%s", &out, want)
	}
}
