package client

import "sync"

// retryBudget is the retry throttling of gRPC A6: it stops the retries of a
// client whose calls mostly fail, so that an outage is not made worse.
type retryBudget struct {
	max, ratio float64

	mu     sync.Mutex
	tokens float64
}

func newRetryBudget(maxTokens, ratio float64) *retryBudget {
	return &retryBudget{max: maxTokens, ratio: ratio, tokens: maxTokens}
}

// succeeded gives back a part of a token.
func (b *retryBudget) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.max, b.tokens+b.ratio)
}

// failed takes a token and says whether the call may be retried.
func (b *retryBudget) failed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = max(0, b.tokens-1)
	return b.tokens > b.max/2
}
