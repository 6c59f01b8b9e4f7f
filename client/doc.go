// Package client asks Oncekeeper for the right to run an operation, runs it, and
// tells how it ended.
//
// Start at Do. Run is the same without types, for guards. The methods named
// after calls of the service (Begin, Renew, Settle, Get and the batches) are for
// callers that hold attempts in their own way. DoBatch and DoEach are Do for a consumer
// that has many keys at once, and RunBatch is Run.
//
// Where an operation's effect is in a database of the caller's own, its function
// calls InTx (client/receipt/pgxreceipt, sqlreceipt), and Do is given the same
// receipts (WithReceipts): the effect and a receipt of it are committed together, so
// that a process which dies between the commit and the word of it costs no
// duplicate. This package looks for the receipt and closes it: see Run. Keep to
// this:
//   - whoever settles a key that has receipts does it by Do, Run or a guard with
//     those receipts. Begin and Settle by hand close nothing;
//   - InTx is called once in an attempt, and holds all that must happen once. What a
//     function does beside it may happen again;
//   - a function that refuses without calling InTx pays one write, which closes the
//     key. Give receipts to operations that call InTx, and to no others: one that has
//     its effect elsewhere would have it called unknown because a database is down
//     that it does not use.
//
// WithOutage says what to do while the service gives no verdict, and WithReconcile
// whom to ask where nobody knows what became of an attempt. SweepReceipts deletes
// receipts that are needed no more. Client.Stats counts all of it.
//
// The package owns what happens in the caller's process: retries of its own
// calls, how long a lease may be trusted, and that whatever was begun is settled.
// It knows the contract and no rule of the service: not its server, its store,
// or any database.
package client
