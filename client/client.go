package client

import (
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper/client/internal/pace"
	"github.com/oncekeeper/oncekeeper/clock"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// Client speaks to one Oncekeeper service. It may be used from any goroutine,
// needs no closing: the connection is its caller's. Its goroutines end with its
// calls, but that a Begin whose answer was lost is asked for again, and what it
// was granted given back, for some seconds (a bounded number at once); and that what
// is answered first is settled meanwhile, which Drain waits for.
type Client struct {
	service pb.IdempotencyServiceClient
	// begins and settlements are nil where each call goes alone.
	begins      *sharedBegins
	settlements *sharedSettlements

	clock     clock.Clock
	log       *slog.Logger
	holder    string
	coalesces bool

	delays pace.Delays
	budget *pace.Budget
	// waits holds one token for every call that the server may hold.
	waits chan struct{}
	// takeBacks holds one token for every lost answer that is being asked for.
	takeBacks chan struct{}

	answered answeredFirst

	callTimeout      time.Duration
	settleTimeout    time.Duration
	receiptTimeout   time.Duration
	reconcileTimeout time.Duration
	maxWait          time.Duration
	unsettled        func(Unsettled)
	tracer           Tracer // nil: no Run is told

	stats    counters
	troubles troubleLog
}

// New gives a client of the service behind cc.
func New(cc grpc.ClientConnInterface, opts ...Option) *Client {
	c := &Client{
		service:          pb.NewIdempotencyServiceClient(cc),
		clock:            clock.System,
		log:              slog.Default(),
		holder:           hostname(),
		delays:           pace.NewDelays(DefaultMinBackoff, DefaultMaxBackoff),
		budget:           pace.NewBudget(DefaultRetryTokens, DefaultRetryTokenRatio),
		waits:            make(chan struct{}, DefaultMaxWaits),
		takeBacks:        make(chan struct{}, maxTakeBacks),
		answered:         answeredFirst{most: DefaultMaxAnsweredFirst},
		callTimeout:      DefaultCallTimeout,
		settleTimeout:    DefaultSettleTimeout,
		receiptTimeout:   DefaultReceiptTimeout,
		reconcileTimeout: DefaultReconcileTimeout,
		maxWait:          DefaultMaxWait,
		unsettled:        func(Unsettled) {},
	}
	for _, opt := range opts {
		opt(c)
	}
	if c.coalesces {
		c.coalesce()
	}
	return c
}
