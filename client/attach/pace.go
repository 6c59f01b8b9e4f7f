package attach

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// delays is exponential backoff with full jitter above a least delay.
type delays struct{ shortest, longest time.Duration }

func newDelays(shortest, longest time.Duration) delays {
	shortest = max(shortest, time.Millisecond)
	return delays{shortest: shortest, longest: max(longest, shortest)}
}

// delay is how long to wait after attempt n, counted from 0. It is between
// shortest and longest, or where the server asks for more, between hint and a
// fifth more than hint.
func (d delays) delay(n int, hint time.Duration) time.Duration {
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

// budget is the token bucket of gRPC A6's retry throttling.
type budget struct {
	mu               sync.Mutex
	tokens           float64
	maxTokens, ratio float64
}

func newBudget(maxTokens, ratio float64) *budget {
	return &budget{tokens: maxTokens, maxTokens: maxTokens, ratio: ratio}
}

// failed takes a token and says whether enough are left to retry.
func (b *budget) failed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = max(0, b.tokens-1)
	return b.tokens > b.maxTokens/2
}

func (b *budget) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.maxTokens, b.tokens+b.ratio)
}
