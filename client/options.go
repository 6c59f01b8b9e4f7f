package client

import (
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/pace"
	"github.com/oncekeeper/oncekeeper/clock"
)

// The defaults of a Client's options.
const (
	DefaultMaxWaits        = 32
	DefaultRetryTokens     = 10
	DefaultRetryTokenRatio = 0.1
	DefaultMinBackoff      = 50 * time.Millisecond
	DefaultMaxBackoff      = 2 * time.Second
	DefaultCallTimeout     = 5 * time.Second
	DefaultSettleTimeout   = 20 * time.Second
	DefaultReceiptTimeout  = 5 * time.Second
	DefaultMaxWait         = time.Minute
)

// Option changes a Client.
type Option func(*Client)

// WithClock counts leases, pauses and time-outs on k. Default: clock.System.
func WithClock(k clock.Clock) Option { return func(c *Client) { c.clock = k } }

// WithLogger reports what no caller is told: settlements that could not be made.
// Keys appear as shortened hashes. Default: slog.Default().
func WithLogger(l *slog.Logger) Option { return func(c *Client) { c.log = l } }

// WithHolder names this process to operators, up to oncekeeper.MaxHolderBytes;
// more is cut. Default: the host's name.
func WithHolder(name string) Option { return func(c *Client) { c.holder = cutHolder(name) } }

// WithMaxWaits bounds how many calls the server may hold open for this client at
// once, so that waiters never starve their holder's Complete behind a proxy's
// limit of streams. Whoever finds no room asks again and again instead. 0: all
// do. Default: DefaultMaxWaits.
func WithMaxWaits(n int) Option {
	return func(c *Client) { c.waits = make(chan struct{}, max(0, n)) }
}

// WithRetryBudget sets the token bucket of gRPC A6 that this client's retries
// share: each failure that could be retried takes a token, each success gives
// back ratio of one, and while half of maxTokens or fewer are left nothing is
// retried. Settlements and renewals draw on it but are never refused by it: there
// are no more of them than running attempts, and losing one costs a takeover.
// Default: DefaultRetryTokens, DefaultRetryTokenRatio.
func WithRetryBudget(maxTokens, ratio float64) Option {
	return func(c *Client) { c.budget = pace.NewBudget(maxTokens, ratio) }
}

// WithBackoff bounds the pause before a retry, which doubles from the least to
// the most and is drawn at random below that. A delay that the server asks for
// is kept, up to a minute. Default: DefaultMinBackoff, DefaultMaxBackoff.
func WithBackoff(least, most time.Duration) Option {
	return func(c *Client) { c.delays = pace.NewDelays(least, most) }
}

// WithCallTimeout bounds each try of a call (beyond what the server was asked to
// hold it), so that a connection that swallows everything is given up and the
// call is tried again. Default: DefaultCallTimeout.
func WithCallTimeout(d time.Duration) Option { return func(c *Client) { c.callTimeout = d } }

// WithSettleTimeout bounds how long a settlement or a renewal is tried, retries
// included; Do and Run return no later than that, and where there are receipts
// WithReceiptTimeout lets a closing take, after their function. Default: DefaultSettleTimeout.
func WithSettleTimeout(d time.Duration) Option { return func(c *Client) { c.settleTimeout = d } }

// WithReceiptTimeout bounds each look at a receipt, and each closing, which waits
// for a transaction of the key that is still open. What takes longer proves nothing:
// the attempt is settled as unknown. A closing that has sent its commit waits for
// the answer for up to the store's Patience (10 s by default), also past it. Default:
// DefaultReceiptTimeout.
func WithReceiptTimeout(d time.Duration) Option { return func(c *Client) { c.receiptTimeout = d } }

// WithReconcileTimeout bounds a reconciler; the lease is kept meanwhile. Default:
// DefaultReconcileTimeout.
func WithReconcileTimeout(d time.Duration) Option {
	return func(c *Client) { c.reconcileTimeout = d }
}

// WithMaxWait bounds how long Do and Run wait for another attempt where they are
// to wait for as long as their context allows and it has no deadline. Default:
// DefaultMaxWait.
func WithMaxWait(d time.Duration) Option { return func(c *Client) { c.maxWait = d } }

// Unsettled is an attempt that ran and whose settlement could not be made: the
// service could not be reached in time, or would not take it. The next Begin
// waits for the lease to end, and is then a takeover or held. Where Err Is
// oncekeeper.ErrKeyNotFound the record is gone, and the next Begin runs it anew;
// where it Is ErrReceipts the receipt could not be closed, and the attempt was
// settled as unknown.
type Unsettled struct {
	Key   oncekeeper.Key
	Token int64
	// As is what it was to be settled as.
	As oncekeeper.Settlement
	// Err is why it was not.
	Err error
}

// WithUnsettled calls f for every attempt that could not be settled, in the
// goroutine that ran it, or of Request.AnswerFirst in one of the client's, perhaps
// several at once.
func WithUnsettled(f func(Unsettled)) Option { return func(c *Client) { c.unsettled = f } }

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return cutHolder(name)
}

func cutHolder(name string) string {
	return cutText(strings.TrimSpace(name), oncekeeper.MaxHolderBytes)
}
