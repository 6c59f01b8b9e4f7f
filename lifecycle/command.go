package lifecycle

import (
	"time"

	"github.com/oncekeeper/oncekeeper"
)

// Command is one of Begin, Renew, Settle, Resolve and Delete. Its fields have
// been judged by the server: a Command is valid.
type Command interface {
	// Target is the key that the command is about.
	Target() oncekeeper.Key
}

// Begin asks for the right to run an attempt.
type Begin struct {
	Key               oncekeeper.Key
	Fingerprint       []byte
	FingerprintScheme string
	// CallID is made anew for each call and sent again only when that call is
	// retried. Empty: none.
	CallID string
	Holder string
	// Principal is who asks, as the server knows it. Empty: anyone may call.
	Principal string
	// TraceParent is the W3C traceparent of the span that asks. Empty: none.
	TraceParent string
	// Grant is what the attempt is given if it is granted.
	Grant oncekeeper.Grant
}

// Renew extends the lease of the attempt that Token names.
type Renew struct {
	Key   oncekeeper.Key
	Token int64
	// Lease counts from now; 0: as granted.
	Lease time.Duration
	// Checkpoint replaces the saved one unless nil.
	Checkpoint []byte
}

// Settle says how the attempt that Token names ended. As is any settlement but
// SettledNot; SettledComplete comes with a Response, the others with a Status.
type Settle struct {
	Key      oncekeeper.Key
	Token    int64
	As       oncekeeper.Settlement
	Response *oncekeeper.Response
	Status   *oncekeeper.Status
	// Retention from now; 0: as granted.
	Retention time.Duration
	// NotRun goes with SettledRetryable: the attempt's function was not called, so it
	// does not count as an attempt.
	NotRun bool
}

// Resolve decides, for an operator, a key that no attempt will settle: with a
// Response it is completed, with a Status failed, with neither released.
type Resolve struct {
	Key      oncekeeper.Key
	Etag     string
	Response *oncekeeper.Response
	Status   *oncekeeper.Status
	// Force also under a live lease.
	Force bool
	// Reason is kept with the record, and so is Principal, who asks.
	Reason    string
	Principal string
}

// Delete forgets, for an operator, what is known of a key.
type Delete struct {
	Key  oncekeeper.Key
	Etag string
	// Force also under a live lease, and also when completed or failed.
	Force bool
	// Reason is kept with the record, and so is Principal, who asks.
	Reason    string
	Principal string
}

// Target implements Command.
func (c Begin) Target() oncekeeper.Key { return c.Key }

// Target implements Command.
func (c Renew) Target() oncekeeper.Key { return c.Key }

// Target implements Command.
func (c Settle) Target() oncekeeper.Key { return c.Key }

// Target implements Command.
func (c Resolve) Target() oncekeeper.Key { return c.Key }

// Target implements Command.
func (c Delete) Target() oncekeeper.Key { return c.Key }
