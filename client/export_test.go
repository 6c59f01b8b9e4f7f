package client

import (
	"context"

	"github.com/oncekeeper/oncekeeper"
)

// Sees has the tracer told of a Run whose Begins were answered so.
func (c *Client) Sees(ctx context.Context, key oncekeeper.Key, answers ...BeginAnswer) {
	_, s := c.see(ctx, key)
	for _, a := range answers {
		s.answered(a)
	}
	s.end(Result{}, nil)
}

// BeginsWaiting is how many Begins wait for a call to share.
func (c *Client) BeginsWaiting() int { return c.begins.Waiting() }

// SettlementsWaiting is how many settlements wait for a call to share.
func (c *Client) SettlementsWaiting() int { return c.settlements.Waiting() }
