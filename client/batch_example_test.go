package client_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
)

// order is a message of a queue.
type order struct {
	ID    string
	Cents int64
	Body  []byte
}

// One transaction for all of a slice that may run; each row shows its fencing token.
func ExampleDoBatch() {
	var keeper *client.Client // client.New(conn)
	var db *sql.DB

	_ = func(ctx context.Context, orders []order) {
		items := make([]client.Item, len(orders))
		for i, o := range orders {
			digest := fingerprint.Raw(o.Body)
			items[i] = client.Item{
				Key:     oncekeeper.Key{Tenant: "acme", Operation: "orders.book", ID: o.ID},
				Options: []client.DoOption{client.WithFingerprint(digest.Scheme, digest.Digest)},
			}
		}
		results := client.DoBatch(ctx, keeper, items, func(ctx context.Context, granted []*client.BatchAttempt[string]) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return oncekeeper.NotApplied(err) // of none of them anything was done
			}
			defer func() { _ = tx.Rollback() }()
			for _, a := range granted {
				if orders[a.Item].Cents <= 0 {
					a.Failed(oncekeeper.Final(fmt.Errorf("order %s has no amount", orders[a.Item].ID)))
					continue
				}
				_, err := tx.ExecContext(ctx, "INSERT INTO bookings (order_id, cents, fence) VALUES ($1, $2, $3)",
					orders[a.Item].ID, orders[a.Item].Cents, a.Token())
				if err != nil {
					return oncekeeper.NotApplied(err) // it is rolled back for all
				}
				a.Done("booked " + orders[a.Item].ID)
			}
			return tx.Commit() // an error of it leaves all of them unknown, but what Failed
		})
		for i, r := range results {
			if r.Err != nil {
				slog.WarnContext(ctx, "an order is to come again, or to be put away", "order", orders[i].ID, "error", r.Err)
			}
		}
	}
}

// One function for each, where one call begins all of them and one settles them.
func ExampleDoEach() {
	var keeper *client.Client // client.New(conn)

	_ = func(ctx context.Context, ids []string) {
		items := make([]client.Item, len(ids))
		for i, id := range ids {
			items[i].Key = oncekeeper.Key{Tenant: "acme", Operation: "billing.charge", ID: id}
		}
		results := client.DoEach(ctx, keeper, items, func(ctx context.Context, a *client.Attempt, item int) (string, error) {
			return chargeCard(ctx, a.Token())
		}, client.WithHold())
		for i, r := range results {
			fmt.Println(ids[i], r.Value, r.Err)
		}
	}
}
