// Package grpcguard stands in front of gRPC calls so that each happens once,
// however often it is asked for: [Guard] before the handlers of a server,
// [Outgoing] before the calls of a client to a service that has no guard.
//
// It owns what a gRPC call means as an operation: its key, its fingerprint, which
// statuses are answers, and what a replay looks like on the wire. How a key is
// begun, kept and settled is the client package's.
//
// # Where it stands
//
// Behind authentication and validation, since it asks who is calling and keeps
// what is answered, and before nothing else that has effects:
//
//	guard, err := grpcguard.New(keeper, grpcguard.Config{Tenant: tenantFromAuth})
//	...
//	grpc.NewServer(
//		grpc.ChainUnaryInterceptor(recovery, authenticate, validate, guard.Unary()),
//		grpc.ChainStreamInterceptor(authenticateStream, guard.Stream()))
//
// # Which calls
//
// Those of methods whose proto carries oncekeeper.options.v1.idempotency, or that
// [Config].Methods names. Every other passes untouched, and so do streams, which
// have no one answer to keep: an annotated one is an error of New.
//
// The key is the idempotency-key metadata, or the request field that the
// annotation names; where both are there they must be equal. The name is the IETF
// draft's (draft-ietf-httpapi-idempotency-key-header), without its quotes: the
// key is the bytes as they came. Sent twice, empty, or outside the limits of a
// key it is INVALID_ARGUMENT before the handler. With no key at all the call runs
// unguarded, or where the annotation says required is refused. The operation is
// "package.Service/Method", and the fingerprint is the request's by scheme pb1
// without the fields to ignore and without the key field: the key is compared as
// the key, and may come by metadata one time and in the field the next.
//
// # What becomes of an answer
//
//	OK                                                    kept, and replayed
//	oncekeeper.Final(err)                                 kept, and replayed
//	INVALID_ARGUMENT, OUT_OF_RANGE, DATA_LOSS             kept, and replayed
//	NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION        kept, and replayed; unknown on a takeover without receipts
//	oncekeeper.NotApplied(err)                            released: the next call runs
//	any other of a transaction of InTx that rolled back   released: the next call runs
//	any other status or error, a panic                    unknown: the next call takes over, or the key is held
//
// On a takeover three codes are not believed: NOT_FOUND may be what the first
// attempt deleted, ALREADY_EXISTS what it made, FAILED_PRECONDITION the state it
// left. With receipts they are: what the first attempt did would have been found. An
// error of Oncekeeper inside the handler's (a nested guard's
// IN_PROGRESS, say) is never kept, whatever its code. [Method].Codes changes this
// for a method.
//
// Everyone gets the response in the very bytes that are kept, the first caller
// too. A replay has the header idempotency-replayed: true, and of the first
// answer's header and trailer what the configuration names. A kept failure comes
// back with its status and details; no header or trailer is kept with it.
//
// # What is answered instead
//
//	IN_PROGRESS            ABORTED (or UNAVAILABLE)  another attempt runs; RetryInfo and grpc-retry-pushback-ms say when to come back
//	FINGERPRINT_MISMATCH   FAILED_PRECONDITION       the key was begun with another request
//	UNRESOLVED             FAILED_PRECONDITION       nobody knows whether it ran, and the key is held; ErrorInfo metadata below
//	ATTEMPTS_EXHAUSTED     FAILED_PRECONDITION       given up; the message says what the last attempt said
//	RESPONSE_NOT_KEPT      FAILED_PRECONDITION       it ran; ErrorInfo metadata "resource" is what SetResource left
//	INVALID_REQUEST        INVALID_ARGUMENT          no key, or not one
//	STORE_UNAVAILABLE      UNAVAILABLE               Oncekeeper cannot be asked and the handler was not run, or the receipts prove nothing
//
// The reason is in the google.rpc.ErrorInfo, with the operation, and in the
// trailer oncekeeper-reason. An UNRESOLVED names in its ErrorInfo metadata the
// last attempt, "attempt_number" and "fencing_token", in decimal: whoever can prove
// what became of it, and may call Oncekeeper, settles with that token
// (client.Complete, client.Fail).
//
// # Receipts
//
// With [Config].Receipts a handler whose effect is in your own database makes it in
// InTx of client/receipt/pgxreceipt or sqlreceipt:
//
//	func (b *bank) Debit(ctx context.Context, r *pb.DebitRequest) (*pb.DebitResponse, error) {
//		return pgxreceipt.InTx(ctx, b.receipts, func(ctx context.Context, tx pgx.Tx) (*pb.DebitResponse, error) {
//			...
//		})
//	}
//
// What InTx gives is committed with the effect, with the header and trailer that are
// replayed and were set before, and it is the answer whatever the handler gives
// after it. Whoever takes over, tries again or meets a held key looks for it before
// the handler runs; and before anything else is settled than an unknown outcome the
// key is closed, so that no effect can come beside a refusal. A refusal that could
// neither be closed nor kept is not given: its caller is told UNAVAILABLE. A response
// that is too large for the service is replayed from the receipt.
//
// A method that does not call InTx has Method.NoReceipts: otherwise it pays for
// closing, and is unknown where the database is down.
//
// While Oncekeeper gives no verdict, Method.Outage says what becomes of calls: closed
// (the default), under the receipt alone, or open. Method.Reconcile is asked where
// nobody knows what became of an attempt and no receipt tells: on a takeover, and for
// a held key. [ReceiptsTell] is that of a method whose whole effect is in InTx.
//
// # The handler
//
// Its context outlives its caller: it has neither the caller's deadline nor its
// cancellation, and ends when the lease is lost or the maximum run time has
// passed. So what a caller that hung up began is finished and settled, and its
// retry gets the answer. A panic settles the attempt as unknown and goes on up.
// [AttemptFrom] gives the handler its fencing token (0 where it runs under its
// receipt alone), and [Takeover] says whether to look for what an earlier attempt did.
//
// A handler's answer that could not be settled because the service was not to be
// reached, or has no record of the key any more, is given all the same: the
// effect happened, and an error would have it asked for again. Where a later
// attempt took the key (FENCED), or it was settled otherwise meanwhile, the answer
// is dropped and the caller told IN_PROGRESS: it comes back and gets the outcome
// that counts.
package grpcguard
