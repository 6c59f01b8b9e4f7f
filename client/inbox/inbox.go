package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
	"github.com/oncekeeper/oncekeeper/client/internal/pace"
	"github.com/oncekeeper/oncekeeper/clock"
)

// Config is how a subscriber's messages are handled. The zero value of a field is
// its default, where one is named.
type Config struct {
	// Tenant and Subscriber name whose messages these are. Required. Two subscribers
	// that are both to handle a message have two names; the consumers of one share
	// its name. The operation of a message's key is "inbox/" and the subscriber.
	Tenant, Subscriber string
	// Request is what every message asks for: lease, retention (longer than a message
	// may be redelivered), hold, MaxAttempts; and Receipts, so that what the handler
	// does in InTx happens once also where its consumer dies before that is recorded
	// (Codec may stay empty: InTx may give anything that is JSON). Its Key, fingerprint
	// and Wait are set for each message. The default MaxAttempts, 0, is the policy's, which may be no
	// limit: a message that always fails then never comes to an end.
	Request client.Request
	// MinDelay and MaxDelay bound the delay after a failed attempt, which doubles from
	// attempt to attempt and is jittered. Defaults: DefaultMinDelay, DefaultMaxDelay.
	MinDelay, MaxDelay time.Duration
	// Clock of HandleWait's delays. Default: clock.System.
	Clock clock.Clock
	// Logger is told why HandleWait tries again. Default: slog.Default().
	Logger *slog.Logger
}

// The default delays.
const (
	DefaultMinDelay = time.Second
	DefaultMaxDelay = 5 * time.Minute
)

// Inbox handles the messages of one subscriber. It may be used from any goroutine,
// and by as many consumers as there are.
type Inbox struct {
	keeper *client.Client
	cfg    Config
	delays pace.Delays
	stats  counters
}

// New makes an inbox that asks keeper, or says what is wrong with cfg.
func New(keeper *client.Client, cfg Config) (*Inbox, error) {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("inbox.Config: "+format, args...))
		}
	}
	check(keeper != nil, "the client is nil")
	check(cfg.Tenant != "", "Tenant is required")
	check(cfg.Subscriber != "", "Subscriber is required")
	check(cfg.Request.MaxAttempts >= 0, "Request.MaxAttempts %d is below 0", cfg.Request.MaxAttempts)
	check(cfg.Request.Outage != client.OutageReceiptsOnly || cfg.Request.Receipts != nil, "Request.Outage is receipts only, and there are no Receipts")
	check(cfg.MinDelay >= 0 && cfg.MaxDelay >= 0, "MinDelay %v or MaxDelay %v is below 0", cfg.MinDelay, cfg.MaxDelay)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if cfg.Request.Receipts != nil && cfg.Request.Codec == nil {
		cfg.Request.Codec = keptJSON{}
	}
	if cfg.MinDelay == 0 {
		cfg.MinDelay = DefaultMinDelay
	}
	if cfg.MaxDelay == 0 {
		cfg.MaxDelay = DefaultMaxDelay
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Inbox{keeper: keeper, cfg: cfg, delays: pace.NewDelays(cfg.MinDelay, cfg.MaxDelay)}, nil
}

// Message is what a broker delivered.
type Message struct {
	// ID is the same for every delivery of the message, and no other message of the
	// subscriber has it: the producer's own id, or where the log keeps its order and
	// its numbers for good, topic, partition and offset. It is a key's id: 1 to 255
	// bytes of UTF-8 with no control characters and no white space at either end. Any
	// other is refused (a dead letter), and never cut or digested: where a producer's
	// ids are longer, give their digest, fingerprint.Raw([]byte(id)).String().
	ID string
	// Fingerprint of what must not differ between deliveries, fingerprint.Raw(body),
	// say: another message under an old id is then refused (a dead letter) rather
	// than taken for a duplicate. Zero: it is not compared.
	Fingerprint fingerprint.Fingerprint
}

// Handler handles a message. Its context outlives Handle's, and ends when the lease
// is lost. nil: the message is handled. oncekeeper.Final(err): it never will be.
// oncekeeper.NotApplied(err): nothing was done, come again. Any other error, and a
// panic: nobody knows; the next attempt is told so by Attempt.Takeover, or the
// message is held.
type Handler func(ctx context.Context, a *client.Attempt) error

// Handle runs handler for m, unless that was done, or is being done. It waits for
// nobody: where another consumer has the message it gives Later at once.
//
// For brokers that take a message back (NATS, RabbitMQ, SQS).
func (i *Inbox) Handle(ctx context.Context, m Message, handler Handler) Result {
	return i.handle(ctx, m, 0, 0, handler)
}

// HandleWait is Handle until the message is done with: it waits while another
// consumer has it, and tries again after a failure or an outage, each time after
// Result.Delay. It gives Later only when ctx ends, with its cause in Result.Err:
// then the message was not done with, and what comes after it is not to be handled.
//
// For logs that keep their order (Kafka). A message that always fails holds up its
// partition, unless Request.MaxAttempts gives it up; the logger is told of each try
// that failed.
func (i *Inbox) HandleWait(ctx context.Context, m Message, handler Handler) Result {
	for unavailable := 0; ; {
		r := i.handle(ctx, m, client.WaitForContext, unavailable, handler)
		if r.Verdict != Later {
			return r
		}
		unavailable++
		if r.Reason != Unavailable {
			unavailable = 0
		}
		if r.Reason != InProgress && ctx.Err() == nil {
			i.cfg.Logger.WarnContext(ctx, "a message is tried again, and holds up what comes after it",
				"subscriber", i.cfg.Subscriber, "reason", r.Reason.String(), "in", r.Delay.String(), "error", r.Err)
		}
		if cause := clock.Sleep(ctx, i.cfg.Clock, r.Delay); cause != nil {
			r.Err = errors.Join(cause, r.Err)
			return r
		}
	}
}

// handle is one try, before which so many in a row did not reach the service.
func (i *Inbox) handle(ctx context.Context, m Message, wait time.Duration, unavailable int, handler Handler) Result {
	req := i.request(m)
	req.Wait = wait
	ran := i.notAttempted()
	result, err := i.keeper.Run(ctx, req, func(ctx context.Context, a *client.Attempt) client.Ended {
		return ran.by(a, handler(ctx, a))
	})
	return i.told(result, err, ran, unavailable)
}

func (i *Inbox) request(m Message) client.Request {
	req := i.cfg.Request
	req.Key = oncekeeper.Key{Tenant: i.cfg.Tenant, Operation: "inbox/" + i.cfg.Subscriber, ID: m.ID}
	req.FingerprintScheme, req.Fingerprint = m.Fingerprint.Scheme, m.Fingerprint.Digest
	return req
}

// notAttempted is what is known where nothing was run yet. Where there is someone to
// ask what became of an attempt, the next delivery is told more.
func (i *Inbox) notAttempted() attempted {
	req := i.cfg.Request
	return attempted{hold: req.Hold && req.Receipts == nil && req.Reconcile == nil}
}

// told counts and gives what became of a message of which Run gave result and err.
func (i *Inbox) told(result client.Result, err error, ran attempted, unavailable int) Result {
	r := judge(result, err, ran)
	i.stats.count(r)
	switch r.Reason {
	case Failed:
		r.Delay = i.delays.Delay(int(max(0, ran.number-1)), 0)
	case Unavailable:
		r.Delay = i.delays.Delay(unavailable, r.Delay)
	case InProgress:
		r.Delay = i.delays.Delay(0, r.Delay)
	}
	return r
}
