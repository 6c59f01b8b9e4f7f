package attach

import (
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper/client/internal/callkey"
	"github.com/oncekeeper/oncekeeper/client/internal/methodoptions"
	"github.com/oncekeeper/oncekeeper/client/internal/pace"
	"github.com/oncekeeper/oncekeeper/clock"
)

// Key names the key of one call. Two that differ on one call, and an empty one,
// are refused with INVALID_ARGUMENT before anything is sent: an identifier that
// was forgotten is a fault and not a wish for a new key. The service takes 1 to
// 255 bytes of UTF-8 with no control characters and no white space at either
// end.
//
// On a connection without UnaryClientInterceptor it does nothing.
func Key(key string) grpc.CallOption { return callkey.Option{Key: key} }

// Option configures UnaryClientInterceptor and NewTransport. What is said of one
// alone does nothing for the other.
type Option func(*interceptor)

// WithMethods selects methods beside the annotated ones: selected is given an
// operation ("package.Service/Method"), and where it is true a call with no key
// is given one. It is asked once for each operation. Select only methods behind
// a guard: nothing else honours a key.
func WithMethods(selected func(operation string) bool) Option {
	return func(i *interceptor) { i.selected = selected }
}

// WithKeyField says which request field is the key of an operation
// ("package.Service/Method") whose proto does not say it, and selects that
// operation. The field is a singular string of the request, and of no oneof; a
// call whose request has no such field gives INTERNAL.
func WithKeyField(operation, field string) Option {
	return func(i *interceptor) { i.fields[methodoptions.Operation(operation)] = field }
}

// WithRetryUnavailable also retries UNAVAILABLE of calls that have a key, and over
// HTTP a 503 and a connection that failed. Such a call may have run: only a guard
// makes it safe to send again.
func WithRetryUnavailable() Option {
	return func(i *interceptor) { i.retryUnavailable = true }
}

// The defaults.
const (
	DefaultMinDelay   = 50 * time.Millisecond
	DefaultMaxDelay   = 2 * time.Second
	DefaultMaxElapsed = 30 * time.Second
	// DefaultMaxTokens and DefaultTokenRatio are gRPC A6's own example.
	DefaultMaxTokens  = 10
	DefaultTokenRatio = 0.1
)

// WithDelays bounds the delay between attempts. Each is drawn at random between
// shortest and a bound that doubles with every attempt, from twice shortest up to
// longest. A delay that the server asks for is the least that is waited, also
// past longest, and at most a fifth is added to it. Shortest is at least a
// millisecond, and longest at least shortest.
func WithDelays(shortest, longest time.Duration) Option {
	return func(i *interceptor) { i.delays = pace.NewDelays(shortest, longest) }
}

// WithMaxElapsed bounds the retrying of a call whose context has no deadline:
// after it, no further attempt begins. It does not cut short an attempt. Zero or
// less: such a call is sent once.
func WithMaxElapsed(d time.Duration) Option {
	return func(i *interceptor) { i.maxElapsed = d }
}

// WithBudget bounds retries across all calls of the interceptor, as gRPC A6's
// retry throttling does: a bucket of maxTokens loses one for every failure that
// could be retried, wins tokenRatio for every OK, and where it is at half or
// less nothing is retried. Zero tokens: no retries.
//
// IN_PROGRESS that names its delay, as a guard's always does, is no failure in
// this sense and takes nothing: the server is well and sets the pace, the polls
// thin out, and the deadline ends them. So one slow operation with many waiters
// takes nothing from the retries of the others, and their failures do not end
// anybody's wait. IN_PROGRESS with no delay named is paced by nobody, and is a
// failure like any other.
func WithBudget(maxTokens, tokenRatio float64) Option {
	return func(i *interceptor) { i.budget = pace.NewBudget(maxTokens, tokenRatio) }
}

// WithClock counts delays on c instead of clock.System. The deadline of a context
// is compared with c's wall clock.
func WithClock(c clock.Clock) Option {
	return func(i *interceptor) { i.clock = c }
}

// interceptor is what the options set.
type interceptor struct {
	selected         func(operation string) bool
	requests         func(*http.Request) bool
	fields           map[string]string // by operation
	retryUnavailable bool
	delays           pace.Delays
	maxElapsed       time.Duration
	budget           *pace.Budget
	clock            clock.Clock

	methods sync.Map // full method name -> method
}

func newInterceptor(options []Option) *interceptor {
	i := &interceptor{
		fields:     map[string]string{},
		delays:     pace.NewDelays(DefaultMinDelay, DefaultMaxDelay),
		maxElapsed: DefaultMaxElapsed,
		budget:     pace.NewBudget(DefaultMaxTokens, DefaultTokenRatio),
		clock:      clock.System,
	}
	for _, o := range options {
		o(i)
	}
	return i
}
