package grpcguard

import (
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// capture takes a handler's header and trailer. They go to the caller when the
// handler's answer does: an attempt whose caller left must not fail because its
// header has nowhere to go, and one that is superseded tells nothing.
type capture struct {
	caller grpc.ServerTransportStream // nil: the call came by no transport
	method string

	mu              sync.Mutex
	header, trailer metadata.MD
	sent            bool
}

var _ grpc.ServerTransportStream = (*capture)(nil)

func (c *capture) Method() string { return c.method }

func (c *capture) SetHeader(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.join(md)
}

func (c *capture) join(md metadata.MD) error {
	if c.sent {
		return status.Error(codes.Internal, "grpcguard: the header was sent before")
	}
	c.header = metadata.Join(c.header, md)
	return nil
}

// SendHeader sends at once what was set, as its caller asks. That the other end
// left is no failure of the attempt.
func (c *capture) SendHeader(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.join(md); err != nil {
		return err
	}
	c.sent = true
	if c.caller != nil {
		_ = c.caller.SendHeader(c.header)
	}
	return nil
}

func (c *capture) SetTrailer(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trailer = metadata.Join(c.trailer, md)
	return nil
}

// taken gives what the handler has set so far. What it sets later is joined into
// new maps, so these stay as they are.
func (c *capture) taken() (header, trailer metadata.MD) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header, c.trailer
}

// release gives the caller what the handler has set.
func (c *capture) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.caller == nil {
		return
	}
	if !c.sent {
		_ = c.caller.SetHeader(c.header)
	}
	_ = c.caller.SetTrailer(c.trailer)
}
