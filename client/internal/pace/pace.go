// Package pace says when, and whether, a call is sent again: jittered exponential
// delays that honour a server's hint, and the retry budget of gRPC A6. It knows
// nothing of what is called.
package pace

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// Delays is exponential backoff with full jitter above a least delay.
type Delays struct{ shortest, longest time.Duration }

// NewDelays bounds the delays: shortest is at least a millisecond, and longest at
// least shortest.
func NewDelays(shortest, longest time.Duration) Delays {
	shortest = max(shortest, time.Millisecond)
	return Delays{shortest: shortest, longest: max(longest, shortest)}
}

// Delay is how long to wait after attempt n, counted from 0. It is between
// shortest and longest, or where the server asks for more, between hint and a
// fifth more than hint.
func (d Delays) Delay(n int, hint time.Duration) time.Duration {
	bound := d.longest
	if d.shortest <= d.longest>>(n+1) { // a shift past the width gives 0
		bound = d.shortest << (n + 1)
	}
	delay := between(d.shortest, bound)
	if delay >= hint {
		return delay
	}
	more := hint / 5
	if hint > math.MaxInt64-more {
		return hint
	}
	return between(hint, hint+more)
}

// between is uniform in [low, high]; low is above 0.
func between(low, high time.Duration) time.Duration {
	return low + time.Duration(rand.Int64N(int64(high-low)+1))
}

// Budget is the token bucket of gRPC A6's retry throttling: it stops the retries
// of a client whose calls mostly fail, so that an outage is not made worse.
type Budget struct {
	mu               sync.Mutex
	tokens           float64
	maxTokens, ratio float64
}

// NewBudget gives a full bucket of maxTokens.
func NewBudget(maxTokens, ratio float64) *Budget {
	return &Budget{tokens: maxTokens, maxTokens: maxTokens, ratio: ratio}
}

// Failed takes a token and says whether enough are left to retry.
func (b *Budget) Failed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = max(0, b.tokens-1)
	return b.tokens > b.maxTokens/2
}

// Succeeded gives back ratio of a token.
func (b *Budget) Succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.maxTokens, b.tokens+b.ratio)
}
