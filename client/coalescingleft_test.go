package client_test

import (
	"context"
	"sync"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

// A caller that has left may use its buffer for something else.
func TestASharedCallKeepsWhatItsCallerGaveThoughThatCallerLeft(t *testing.T) {
	c := newCrowd(t)
	tokens := make([]int64, 4)
	for i := range tokens {
		answer, err := c.plain().Begin(t.Context(), client.BeginRequest{Key: keyNumber(i)})
		if err != nil || answer.Grant == nil {
			t.Fatalf("a caller got %+v, %v", answer, err)
		}
		tokens[i] = answer.Grant.Token
	}
	c.held["Complete"] = make(chan struct{})
	leaver, leave := context.WithCancel(t.Context())
	defer leave()
	left := make(chan struct{})
	c.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		if method == "BatchSettle" {
			leave()
			<-left
		}
		return call(ctx)
	}
	for len(c.came) > 0 {
		<-c.came
	}
	var all sync.WaitGroup
	for i, token := range tokens {
		all.Go(func() {
			ctx, body := t.Context(), []byte("paid")
			if i == 2 {
				ctx = leaver
				defer close(left)
				defer copy(body, "oops")
			}
			_, err := c.keeper.Complete(ctx, keyNumber(i), token, &oncekeeper.Response{Body: body})
			if err != nil && i != 2 {
				t.Errorf("caller %d got %v", i, err)
			}
		})
		if i < 2 {
			recv(t, c.came, "a call")
		}
	}
	await(t, "settlements", c.keeper.SettlementsWaiting, 2)
	c.letGo("Complete")
	all.Wait()
	if rec := c.record(keyNumber(2)); rec.Response == nil || string(rec.Response.Body) != "paid" {
		t.Errorf("what is kept of who left is %+v, want that it paid", rec.Response)
	}
}
