// Package attach gives every logical gRPC call one idempotency key, sends it with
// each of the call's attempts, and waits while another attempt with that key is
// running.
//
// It owns the calling end: it knows what a guarded service answers, and never
// speaks to Oncekeeper itself. A service that calls guarded methods imports this
// package and needs no address but theirs.
//
//	conn, err := grpc.NewClient(target, grpc.WithChainUnaryInterceptor(attach.UnaryClientInterceptor()))
//	...
//	charge, err := charges.Charge(ctx, request, attach.Key(order.ID))
//
// # Which key
//
// The first of these that is there; those that are there must agree:
//
//   - [Key], a call option;
//   - the idempotency-key metadata that the caller put into the context;
//   - the request field that the method's annotation
//     (oncekeeper.options.v1.idempotency, key_field) or [WithKeyField] names;
//   - inside an attempt, a key derived from the attempt's own, as below;
//   - for an annotated method, and one that [WithMethods] or WithKeyField selects,
//     a new UUIDv7: it begins with the time, so that neighbours in time are
//     neighbours in the store's key index.
//
// A call with none of these is sent as it is. The key goes out as metadata, one
// value, the same on every attempt, and in the key field where the method has
// one: in a copy of the request, which is never changed in place. A key that
// metadata cannot carry (anything but printable ASCII) goes in the key field
// alone, and is refused where there is none.
//
// A generated key lasts for one call of the stub. A caller that may ask again
// later, after a restart or a time-out, names a key that it can name again. Where
// grpcguard's Outgoing stands further in, its Key wins over a generated one, and
// over a derived one whose step has no name.
//
// # Inside an attempt
//
// A handler behind a guard, and a function given to client.Do, may be run again,
// by a retry or by whoever takes over. Then the calls that it makes are to have the
// keys that they had. So these are derived from the attempt's key, the called
// method, and either
//
//   - the step that [Step] names, for any method; or
//   - for the methods that would be given a new key, the request's fingerprint, as
//     the method's guard makes it, and how many equal calls of this attempt ended
//     before with a known outcome. A call that failed and may have run has the same
//     key when it is made again.
//
// A named step is the better one: it stays the same where the next attempt fills
// its request otherwise, or finds that it need not make an earlier call. Known is
// an outcome that tells the same whichever attempt of the called method gave it:
// OK, RESPONSE_NOT_KEPT, INVALID_ARGUMENT, OUT_OF_RANGE and DATA_LOSS. After
// another failure an equal call is the same call: to try anew what was refused,
// name it as another step.
//
// Two equal calls at once are refused with [ErrAtOnce], and nothing is sent: nobody
// could tell which key is whose. Of attempts inside each other the innermost
// counts. [DeriveKey] gives such a key to what is called by other means. How keys
// are made, for other languages and with test vectors, is in docs/any-language.md.
//
// Whoever is called must remember the key for longer than the attempt may be tried
// again.
//
// # What is retried
//
// IN_PROGRESS of the called method itself, told by the operation in its
// google.rpc.ErrorInfo: someone else runs this very call, and its answer will be
// this one's too. The same answer of a service further down is not retried: who
// called that one waited already. With [WithRetryUnavailable] also UNAVAILABLE.
// Nothing else is: a mismatch, a fenced attempt, an unresolved key or an invalid
// request is the same however often it is asked for.
//
// RetryInfo and grpc-retry-pushback-ms (gRPC A6) say when to come back; a
// pushback that is negative, unreadable or sent twice says not to. No attempt is
// begun that would start after the caller's deadline, or where there is none
// after [WithMaxElapsed]: the last answer is given at once then.
//
// # No streams
//
// There is no interceptor for streams. A stream has no one answer that could be
// kept and given again, so guards do not stand before streams, and a key on one
// would promise what nobody keeps.
package attach
