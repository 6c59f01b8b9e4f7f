// Package inbox handles each message of a broker or a log once for each subscriber,
// however often it is delivered.
//
// It owns what a delivery means as an operation: its key, and what is to become of
// the message. It knows no broker. How a key is begun, kept and settled is the
// client package's.
//
//	orders, err := inbox.New(keeper, inbox.Config{
//		Tenant: "acme", Subscriber: "invoices",
//		Request: client.Request{MaxAttempts: 5, Retention: 14 * 24 * time.Hour},
//	})
//	...
//	r := orders.Handle(ctx, inbox.Message{ID: m.ID, Fingerprint: fingerprint.Raw(m.Body)}, handle)
//
// # What to tell the broker
//
//	              Handled, Duplicate       Later                                DeadLetter
//	NATS          Ack                      NakWithDelay(Delay)                  publish to the dead letters, then Term
//	RabbitMQ      ack                      publish to a queue of that delay,    reject without requeue, to the
//	                                       then ack                             queue's dead-letter exchange
//	SQS           DeleteMessage            ChangeMessageVisibility(Delay)       send to the dead-letter queue, then
//	                                                                            DeleteMessage
//	Kafka         commit past it           do not commit: pause, and come       produce to the dead letters, then
//	              (by HandleWait)          back to the same offset              commit past it
//
// A dead letter is put away before the message is acknowledged. Where both are done
// and the acknowledgement is lost, the next delivery says DeadLetter again, and the
// letter is there twice: it has the message's id.
//
// # Many at once
//
// [Inbox.HandleAll] takes the slice that a broker gave, asks for all of it by one call,
// and has one call of the handler for what is to be handled, with one transaction for
// all of it, say. [Inbox.HandleEach] has them handled one by one. Each message has its
// own Result; for a log, what comes after the first that is Later is not to be committed.
//
// # Deliveries are no attempts
//
// Most brokers count deliveries, and give a message up after so many. They count
// those too that were answered Later because another consumer had the message, or
// because Oncekeeper could not be asked; then a message is given up that was never
// tried. So let Oncekeeper count: Request.MaxAttempts counts attempts that
// ran, and an answer of InProgress, or that Oncekeeper could not be asked, counts
// nothing. Set the broker's own limit far above (NATS: MaxDeliver -1; RabbitMQ's
// quorum queues: delivery-limit -1; SQS: maxReceiveCount 1000).
//
// What was granted and not run counts nothing either: its context ended, or, with
// Request.Receipts, the receipt of an earlier attempt could not be looked for, since
// the database is down. What counts though nothing ran is a consumer that dies, and a
// reconciler that cannot tell.
//
// While a handler runs, the broker's own time-out runs too, and when it is over the
// message is delivered again: to be answered Later, which does no harm but work. Set
// it longer than handlers take, or tell the broker now and then (NATS InProgress,
// SQS ChangeMessageVisibility) from the handler.
//
// # How long
//
// A message is known for Request.Retention after it was handled. It must be longer
// than the broker may deliver it again: its own retention, and whatever an operator
// may replay.
package inbox
