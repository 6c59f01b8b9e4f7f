// Package httpguard stands in front of HTTP handlers so that each request that
// carries an Idempotency-Key takes effect once, however often it is sent.
//
// It owns what an HTTP request means as an operation: its key, its fingerprint,
// which answers are kept, and what a refusal looks like on the wire. How a key is
// begun, kept and settled is the client package's. docs/http.md says all of it to
// an API's callers, beside the sections of the draft that it follows
// (draft-ietf-httpapi-idempotency-key-header-07).
//
//	guard, err := httpguard.New(keeper, httpguard.Config{Tenant: tenantFromAuth})
//	...
//	mux.Handle("POST /charges", authenticate(guard.Operation("charges.create")(createCharge)))
//
// It stands behind authentication, since it asks who is calling and keeps what is
// answered, and before whatever reads the body.
//
// # Which requests
//
// Those of a route's unsafe methods: GET, HEAD, OPTIONS and TRACE pass. The key is
// one structured-field string, or the same characters without quotes. Sent twice,
// as a list, empty, of another structured type, or outside the limits of a key it
// is refused (400) before the handler, and with no key too, unless
// [WithOptionalKey] lets such a request run unguarded.
//
// The body is read whole first, up to Config.MaxRequestBytes (413), and the
// handler gets it whole. The fingerprint, of scheme [Scheme], is of the method,
// the path and query as they came, content type and content encoding, and the
// body: by jcs1 where the content type is JSON and the body is unambiguous JSON
// with no content encoding, so that the order of members makes no difference; else
// byte for byte. Another request under the same key is 422.
//
// # What becomes of an answer
//
//	2xx, 3xx                         kept, and replayed
//	4xx but the next two lines       kept, and replayed; on a takeover without receipts only 400, 405, 406, 411, 413, 414, 415, 417 and 431
//	401, 403, 429                    released: the next request runs
//	408, 409, 425                    unknown: the next request takes over, or the key is held
//	5xx, any other code, a panic     unknown
//	one that is not whole            unknown
//
// On a takeover an earlier attempt's effect may stand, and much of what is refused
// then is refused because of it: so only what says that the request itself is wrong
// is believed. [WithStatus] changes the table for an operation, and [SettleAs] says
// what the handler knows better. A refusal of another guard, passed on, is never
// kept.
//
// Kept are the status code, the body, the Content-Type, and of the header what
// says what the body is and where what was made is (Location, ETag, Link and so
// on), beside what the configuration names. Credentials and cookies are never kept.
// A replay has the header Idempotency-Replayed: true.
//
// # When an answer goes out
//
// Once it is settled: what the handler writes is held until then, so that what an
// attempt gave that was superseded is never told. A guarded handler's
// ResponseWriter is therefore no Flusher and no Hijacker, drops informational
// answers (1xx), and its Write does not fail where the caller has left. What
// streams (server-sent events, web sockets) belongs on a route with no guard.
//
// An answer that grows past what the service keeps (1 MiB by default) is not
// held, since that would fill the memory: from there on it goes out as it is
// written, but for its last byte. The attempt is then settled as having run,
// with the pointer that [SetResource] left, and the last byte follows; or where it
// does not count, the connection is broken off, so that no caller has it whole.
// Later callers are told RESPONSE_NOT_KEPT. Trailers go to the first caller and are
// not kept.
//
// # The handler
//
// Its context outlives its caller: it has neither the caller's deadline nor its
// cancellation, and ends when the lease is lost or the maximum run time has
// passed. So what a caller that hung up began is finished and settled, and its
// retry gets the answer. Where the context ended before the handler returned, or
// the body is shorter than its Content-Length, the outcome is unknown, whatever was
// written. A panic settles the attempt as unknown and goes on up, http.ErrAbortHandler
// too. [AttemptFrom] gives the handler its fencing token, and [Takeover] says
// whether to look for what an earlier attempt did.
//
// An answer that could not be settled because the service was not to be reached is
// given all the same: the effect happened, and an error would have it asked for
// again. Where a later attempt took the key, the answer is dropped and the caller
// told 409: it comes back and gets the outcome that counts.
//
// # Receipts
//
// With Config.Receipts a handler's transaction leaves a receipt of its effect:
// InTx of client/receipt/sqlreceipt or pgxreceipt gives a [Response], which is
// committed with the effect and is the answer, byte for byte, whatever the handler
// writes. Whoever takes over looks for it first, and what an attempt refuses yields
// to it. [SettleBy] takes the error of a transaction that rolled back. A refusal
// that could neither be kept nor ruled out is not given: its caller is asked to come
// back (503). [WithOutage] says what to do while Oncekeeper cannot be asked, and
// [WithReconcile] asks whoever else may know what became of an attempt.
package httpguard
