package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"time"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/inbox"
	"github.com/oncekeeper/oncekeeper/inprocess"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

const (
	// within bounds the whole run, which takes less than a second.
	within = time.Minute
	// demoSecret is known to everyone who reads this.
	demoSecret = secretPrefix + "b25jZWtlZXBlci1leGFtcGxlLXNlY3JldC0wMQ=="
	// redelivered is how long senders keep on, and operators look back.
	redelivered = 30 * 24 * time.Hour
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "webhook:", err)
		os.Exit(1)
	}
}

// run sends some deliveries, good and bad, and prints how each is answered and what
// became of the account.
func run(ctx context.Context, out io.Writer) error {
	store, err := pebble.Open(pebble.Config{})
	if err != nil {
		return err
	}
	keeper, err := inprocess.Open(inprocess.Config{Store: store})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	return errors.Join(demo(ctx, out, keeper.Client()), keeper.Close(ctx))
}

func demo(ctx context.Context, out io.Writer, keeper *client.Client) error {
	secret, err := parseSecret(demoSecret)
	if err != nil {
		return err
	}
	pending := make(memoryQueue, 16)
	rc, wk, err := assemble(keeper, verifier{secrets: [][]byte{secret}, tolerance: 5 * time.Minute, now: time.Now}, pending)
	if err != nil {
		return err
	}
	server := httptest.NewServer(rc)
	defer server.Close()

	now := time.Now()
	newer := []byte(`{"account":"acme","amount":10,"version":2,"email":"new@acme.example"}`)
	older := []byte(`{"account":"acme","amount":5,"version":1,"email":"old@acme.example"}`)
	for _, d := range []struct {
		what, id  string
		at        time.Time
		body      []byte
		signature string // empty: the right one
	}{
		{what: "the newer event first", id: "d-2", at: now, body: newer},
		{what: "the same once more", id: "d-2", at: now.Add(time.Second), body: newer},
		{what: "the older event after it", id: "d-1", at: now, body: older},
		{what: "resent by an operator", id: "d-1", at: now.Add(2 * time.Second), body: older},
		{what: "another body, same id", id: "d-1", at: now, body: newer},
		{what: "recorded an hour ago", id: "d-1", at: now.Add(-time.Hour), body: older},
		{what: "signed by nobody", id: "d-3", at: now, body: newer, signature: signatureScheme + "Zm9yZ2Vk"},
	} {
		timestamp := strconv.FormatInt(d.at.Unix(), 10)
		if d.signature == "" {
			d.signature = signature(secret, d.id, timestamp, d.body)
		}
		answer, err := post(ctx, server.URL, http.Header{
			headerID: {d.id}, headerTimestamp: {timestamp}, headerSignature: {d.signature},
		}, d.body)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-26s %s\n", d.what, answer)
	}
	for len(pending) > 0 {
		if r := wk.work(ctx, <-pending); r.Err != nil {
			return r.Err
		}
	}
	acme := wk.accounts.of("acme")
	fmt.Fprintf(out, "\nbalance %d (want 15), email %s (want new@acme.example)\n", acme.Balance, acme.Email)
	return nil
}

func post(ctx context.Context, url string, header http.Header, body []byte) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header = header
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	return response.Status, response.Body.Close()
}

// assemble makes the two ends of the queue. Each is a subscriber: what the one took
// in the other has not done yet.
func assemble(keeper *client.Client, v verifier, q queue) (*receiver, *worker, error) {
	request := client.Request{Retention: redelivered}
	received, err := inbox.New(keeper, inbox.Config{Tenant: "us", Subscriber: "webhooks.received", Request: request})
	if err != nil {
		return nil, nil, err
	}
	request.MaxAttempts = 10
	worked, err := inbox.New(keeper, inbox.Config{Tenant: "us", Subscriber: "webhooks.worked", Request: request})
	if err != nil {
		return nil, nil, err
	}
	log := slog.New(slog.DiscardHandler)
	return &receiver{verifier: v, inbox: received, queue: q, log: log}, &worker{inbox: worked, accounts: &accounts{}}, nil
}

// memoryQueue stands for a broker.
type memoryQueue chan work

var errFull = errors.New("the queue is full")

func (q memoryQueue) Push(_ context.Context, w work) error {
	select {
	case q <- w:
		return nil
	default:
		return errFull
	}
}
