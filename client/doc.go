// Package client asks Oncekeeper for the right to run an operation, runs it, and
// tells how it ended.
//
// Start at Do. Run is the same without types, for guards. The methods named
// after calls of the service (Begin, Renew, Settle, Get and the batches) are for
// callers that hold attempts in their own way.
//
// The package owns what happens in the caller's process: retries of its own
// calls, how long a lease may be trusted, and that whatever was begun is settled.
// It knows the contract and no rule of the service: not its server, its store,
// or any database.
package client
