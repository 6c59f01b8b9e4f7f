package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
	"github.com/oncekeeper/oncekeeper/client/inbox"
)

const (
	maxBody = 1 << 20
	// answerWithin is less than senders wait for an answer.
	answerWithin = 4 * time.Second
)

// queue takes work. Push returns when it is kept for good, so it is your broker, or
// a table of your database. It may be pushed the same work twice.
type queue interface {
	Push(ctx context.Context, w work) error
}

// work is what a delivery asks for.
type work struct {
	DeliveryID string
	Body       []byte
}

// receiver answers deliveries: it checks who sent them, queues each once, and says
// so. It does not do the work: a sender that waits for it gives up, and sends again.
type receiver struct {
	verifier verifier
	inbox    *inbox.Inbox
	queue    queue
	log      *slog.Logger
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "deliveries are posted", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		code := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "the body cannot be read", code)
		return
	}
	// Before anything else: of an unknown sender not even the id is to be kept.
	id, err := rc.verifier.verify(r.Header, body)
	if err != nil {
		rc.log.WarnContext(r.Context(), "a delivery was refused", "error", err)
		http.Error(w, errForged.Error(), http.StatusUnauthorized)
		return
	}
	rc.answer(w, rc.accept(r.Context(), work{DeliveryID: id, Body: body}))
}

// accept queues w, unless that was done. The time of the try is not in the
// fingerprint: it is another one at each.
func (rc *receiver) accept(ctx context.Context, w work) inbox.Result {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	m := inbox.Message{ID: w.DeliveryID, Fingerprint: fingerprint.Raw(w.Body)}
	return rc.inbox.Handle(ctx, m, func(ctx context.Context, _ *client.Attempt) error {
		return rc.queue.Push(ctx, w)
	})
}

func (rc *receiver) answer(w http.ResponseWriter, r inbox.Result) {
	switch r.Verdict {
	case inbox.Handled, inbox.Duplicate:
		w.WriteHeader(http.StatusNoContent)
	case inbox.Later:
		// It is not acknowledged, so the sender comes back by itself.
		w.Header().Set("Retry-After", strconv.Itoa(1+int(r.Delay.Seconds())))
		http.Error(w, "not now: "+r.Reason.String(), http.StatusServiceUnavailable)
	default:
		// Another body under an old id, or an id that is none: the sender's fault, and
		// the same however often it is sent.
		rc.log.Error("a delivery is not taken", "reason", r.Reason.String(), "error", r.Err)
		http.Error(w, "this delivery is not taken: "+r.Reason.String(), http.StatusUnprocessableEntity)
	}
}
