package business

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
	"github.com/oncekeeper/oncekeeper/client/inbox"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
)

// redelivery is when the broker gives a message again that was not acknowledged.
const redelivery = time.Second

// The broker's stream, and what is in it.
const (
	stream  = "SHOP"
	orders  = "shop.orders"
	events  = "shop.events"
	charger = "charger" // the consumer of orders
)

// startBroker runs a NATS server with JetStream until the test ends, and gives its
// address. It keeps every copy of a message that it is given.
func startBroker(t *testing.T) (address string, broker jetstream.JetStream) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	go srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("the broker does not start")
	}
	_, broker, err = reachBroker(t.Context(), srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := broker.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"shop.>"}}); err != nil {
		t.Fatal(err)
	}
	return srv.ClientURL(), broker
}

func reachBroker(ctx context.Context, address string) (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect(address)
	if err != nil {
		return nil, nil, err
	}
	context.AfterFunc(ctx, conn.Close)
	broker, err := jetstream.New(conn)
	return conn, broker, err
}

// consume handles one delivery of an order as its job says, and acknowledges it.
func consume(ctx context.Context, j job, s *shop, keeper *client.Client, reach func(step)) error {
	_, broker, err := reachBroker(ctx, j.Broker)
	if err != nil {
		return err
	}
	consumer, err := broker.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable: charger, FilterSubject: orders, AckPolicy: jetstream.AckExplicitPolicy, AckWait: redelivery, MaxDeliver: -1,
	})
	if err != nil {
		return err
	}
	m, err := consumer.Next(jetstream.FetchMaxWait(time.Minute))
	if err != nil {
		return err
	}
	request := m.Headers().Get(nats.MsgIdHdr)
	if j.Naive {
		if _, err := charge(ctx, s.db, request, j.Amount); err != nil {
			return err
		}
		reach(committed)
		say(said{Answer: "handled"})
		return m.DoubleAck(ctx)
	}
	in, err := inbox.New(keeper, inbox.Config{
		Tenant: "acme", Subscriber: charger, Request: client.Request{Lease: j.Lease, Receipts: s.receipts},
	})
	if err != nil {
		return err
	}
	r := in.HandleWait(ctx, inbox.Message{ID: request, Fingerprint: fingerprint.Raw(m.Data())}, func(ctx context.Context, _ *client.Attempt) error {
		_, err := s.chargeOnce(ctx, request, j.Amount)
		if err == nil {
			reach(committed)
		}
		return err
	})
	if r.Verdict != inbox.Handled && r.Verdict != inbox.Duplicate {
		return fmt.Errorf("%v: %v: %w", r.Verdict, r.Reason, r.Err)
	}
	reach(answered)
	say(said{Answer: r.Verdict.String()})
	return m.DoubleAck(ctx)
}

// order publishes an order.
func order(t *testing.T, broker jetstream.JetStream, request string) {
	t.Helper()
	m := nats.NewMsg(orders)
	m.Header.Set(nats.MsgIdHdr, request)
	m.Data = []byte(request)
	if _, err := broker.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// 7.
func TestAConsumerThatCommitsAndDiesBeforeItsAckChargesOnce(t *testing.T) {
	inEveryWorldOfProcesses(t, func(w *world) {
		address, broker := startBroker(w.T)
		for _, at := range []step{committed, answered} {
			request := "guarded, " + string(at)
			order(w.T, broker, request)
			j := w.childOf("", at)
			j.Broker = address
			dies := startChild(w.T, j)
			dies.reaches(at)
			dies.kill()
			j.StopAt = ""
			if verdict := startChild(w.T, j).answer(); verdict != "duplicate" {
				w.Errorf("killed when it had %s, the redelivery is %s", at, verdict)
			}
			w.mustHave(request, 1)
		}

		order(w.T, broker, "naive")
		j := w.childOf("", committed)
		j.Broker, j.Naive = address, true
		dies := startChild(w.T, j)
		dies.reaches(committed)
		dies.kill()
		j.StopAt = ""
		startChild(w.T, j).answer()
		w.mustHave("naive", 2)
	})
}

// 9. The business row, the receipt and the event are one transaction. The dispatcher
// publishes each event several times, as one does that dies before it notes that it
// did; whoever consumes them ships once.
func TestAnEventThatIsPublishedSeveralTimesIsConsumedOnce(t *testing.T) {
	inEveryWorld(t, func(w *world) {
		_, broker := startBroker(w.T)
		placed := func(request string) error {
			_, err := client.Do(w.Context(), w.keeper, key(request), func(ctx context.Context, _ *client.Attempt) (string, error) {
				return sqlreceipt.InTx(ctx, w.receipts, func(ctx context.Context, tx *sql.Tx) (string, error) {
					answer, err := charge(ctx, tx, request, 10)
					if err != nil {
						return "", err
					}
					_, err = tx.ExecContext(ctx, `INSERT INTO outbox (id, request) VALUES ($1, $2)`, "event of "+request, request)
					return answer, err
				})
			}, client.WithReceipts(w.receipts), client.WithLease(longLease))
			return err
		}
		for range 2 {
			if err := placed("guarded"); err != nil {
				w.Fatal(err)
			}
		}
		w.mustHave("guarded", 1)

		const copies = 3
		for range copies {
			w.dispatch(broker)
		}
		shipped := map[string]int{}
		shipper, err := inbox.New(w.keeper, inbox.Config{Tenant: "acme", Subscriber: "shipper", Request: client.Request{Lease: longLease}})
		if err != nil {
			w.Fatal(err)
		}
		naive := 0
		w.consumeAll(broker, copies, func(m jetstream.Msg) error {
			naive++ // whatever comes is shipped
			r := shipper.Handle(w.Context(), inbox.Message{ID: m.Headers().Get("event"), Fingerprint: fingerprint.Raw(m.Data())},
				func(context.Context, *client.Attempt) error {
					shipped[string(m.Data())]++
					return nil
				})
			if r.Verdict == inbox.Later {
				return r.Err
			}
			return m.DoubleAck(w.Context())
		})
		if shipped["guarded"] != 1 || naive != copies {
			w.Errorf("shipped %v times, and naively %d; want once, and %d times", shipped, naive, copies)
		}
	})
}

// dispatch publishes the events of the outbox, and dies before it notes it.
func (w *world) dispatch(broker jetstream.JetStream) {
	w.Helper()
	rows, err := w.db.Query(`SELECT id, request FROM outbox WHERE NOT published`)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, request string
		if err := rows.Scan(&id, &request); err != nil {
			w.Fatal(err)
		}
		m := nats.NewMsg(events)
		m.Header.Set("event", id)
		m.Data = []byte(request)
		if _, err := broker.PublishMsg(w.Context(), m); err != nil {
			w.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		w.Fatal(err)
	}
}

// consumeAll takes so many deliveries of events.
func (w *world) consumeAll(broker jetstream.JetStream, deliveries int, handle func(jetstream.Msg) error) {
	w.Helper()
	consumer, err := broker.CreateOrUpdateConsumer(w.Context(), stream, jetstream.ConsumerConfig{
		FilterSubject: events, AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		w.Fatal(err)
	}
	for range deliveries {
		m, err := consumer.Next(jetstream.FetchMaxWait(time.Minute))
		if err == nil {
			err = handle(m)
		}
		if err != nil {
			w.Fatal(errors.Join(errors.New("consuming an event"), err))
		}
	}
}
