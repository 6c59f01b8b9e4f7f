package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
	"github.com/oncekeeper/oncekeeper/client/inbox"
)

// delivery stands for a broker's.
type delivery interface {
	ID() string
	Body() []byte
	Ack() error
	NakWithDelay(delay time.Duration) error
	// PutAway publishes it to the dead letters.
	PutAway(why error) error
}

// record is one of a log, which is read in order.
type record struct {
	key   string // topic, partition and offset
	value []byte
}

func sendInvoice(context.Context, []byte) error { return nil }

// A consumer of a broker that takes messages back.
func ExampleInbox_Handle() {
	var keeper *client.Client // client.New(conn)

	_ = func(ctx context.Context, deliveries <-chan delivery) error {
		orders, err := inbox.New(keeper, inbox.Config{
			Tenant: "acme", Subscriber: "invoices",
			Request: client.Request{MaxAttempts: 5, Retention: 14 * 24 * time.Hour},
		})
		if err != nil {
			return err
		}
		for d := range deliveries {
			m := inbox.Message{ID: d.ID(), Fingerprint: fingerprint.Raw(d.Body())}
			r := orders.Handle(ctx, m, func(ctx context.Context, _ *client.Attempt) error {
				return sendInvoice(ctx, d.Body())
			})
			switch r.Verdict {
			case inbox.Later:
				err = d.NakWithDelay(r.Delay)
			case inbox.DeadLetter:
				if err = d.PutAway(r.Err); err == nil {
					err = d.Ack()
				}
			default:
				err = d.Ack()
			}
			if err != nil {
				slog.WarnContext(ctx, "the broker was not told: the message is delivered again", "error", err)
			}
		}
		return nil
	}
}

// A consumer that takes many messages at once, and has one transaction for all.
func ExampleInbox_HandleAll() {
	var orders *inbox.Inbox // inbox.New(keeper, inbox.Config{…})
	var db *sql.DB

	_ = func(ctx context.Context, deliveries []delivery) []inbox.Result {
		messages := make([]inbox.Message, len(deliveries))
		for i, d := range deliveries {
			messages[i] = inbox.Message{ID: d.ID(), Fingerprint: fingerprint.Raw(d.Body())}
		}
		// What to tell the broker of each is as with Handle.
		return orders.HandleAll(ctx, messages, func(ctx context.Context, all []*inbox.Delivery) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return oncekeeper.NotApplied(err)
			}
			defer func() { _ = tx.Rollback() }()
			for _, d := range all {
				body := deliveries[d.Item].Body()
				if len(body) == 0 {
					d.Failed(oncekeeper.Final(errors.New("an empty order"))) // this one alone
					continue
				}
				if _, err := tx.ExecContext(ctx, "INSERT INTO invoices (body, fence) VALUES ($1, $2)", body, d.Token()); err != nil {
					return oncekeeper.NotApplied(err)
				}
			}
			return tx.Commit()
		})
	}
}

// A consumer of a log, which handles one record after the other.
func ExampleInbox_HandleWait() {
	var orders *inbox.Inbox // inbox.New(keeper, inbox.Config{…})

	_ = func(ctx context.Context, partition []record, commit func(record) error, putAway func(record, error) error) error {
		for _, rec := range partition {
			m := inbox.Message{ID: rec.key, Fingerprint: fingerprint.Raw(rec.value)}
			r := orders.HandleWait(ctx, m, func(ctx context.Context, _ *client.Attempt) error {
				return sendInvoice(ctx, rec.value)
			})
			if r.Verdict == inbox.Later {
				return r.Err // ctx ended: nothing from here on is handled
			}
			if r.Verdict == inbox.DeadLetter {
				if err := putAway(rec, r.Err); err != nil {
					return err
				}
			}
			if err := commit(rec); err != nil {
				return err
			}
		}
		return nil
	}
}
