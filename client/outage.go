package client

import "github.com/oncekeeper/oncekeeper/client/internal/steps"

// Outage is what a call may do where the service gives no verdict: it cannot be
// reached, does not answer in time, is overloaded, or has no store (ErrUnavailable).
// A caller whose own deadline ends first is none: WithCallTimeout bounds how long a
// service is waited for that takes calls and answers none.
type Outage uint8

// The outage modes.
const (
	// OutageClosed: it does not run, and gives ErrUnavailable. The default.
	OutageClosed = Outage(steps.Closed)
	// OutageReceiptsOnly: it runs under the receipt's constraint alone. Whoever
	// finds a receipt gets its response; a key that was once closed waits for the
	// service. What the function does in InTx happens once all the same. What a
	// function gives that did not call InTx is given to its caller and kept
	// nowhere: the next call runs it again, also where it failed for good. That a
	// key is held, that its attempts are used up, or that another attempt is
	// running, is not known meanwhile. It needs Request.Receipts.
	OutageReceiptsOnly = Outage(steps.ReceiptsOnly)
	// OutageOpen: it runs unguarded, as often as it is asked for. A service that is
	// overloaded for longer than the client tries gives no verdict either.
	OutageOpen = Outage(steps.Open)
)

func (o Outage) String() string {
	switch o {
	case OutageClosed:
		return "closed"
	case OutageReceiptsOnly:
		return "receipts only"
	case OutageOpen:
		return "open"
	default:
		return "not an outage mode"
	}
}
