package drive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/proof/internal/history"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/policy"
)

// client makes one call at a time.
type client struct {
	run    *Run
	id     int
	random *rand.Rand
	calls  int
}

// of is true n times in a hundred.
func (c *client) of(n int) bool { return c.random.IntN(100) < n }

// act makes one call that suits what is known, or asks again what was lost.
func (c *client) act(ctx context.Context) {
	keys := c.run.current()
	k := keys[c.random.IntN(len(keys))]
	switch n := c.random.IntN(100); {
	case n < 3:
		c.batchBegin(ctx, keys)
	case n < 6:
		c.batchSettle(ctx, keys)
	case n < 7:
		c.sweep(ctx)
	default:
		o := c.choose(k, n)
		for range 3 {
			// As a client does: the very same call, at whichever server answers.
			try := o
			if c.call(ctx, k, &try); try.Answer != nil || c.of(40) {
				return
			}
		}
	}
}

// choose gives a call about k; n is below a hundred.
func (c *client) choose(k *key, n int) history.Operation {
	token, granted := recall(k, &k.tokens, c.random)
	switch {
	case n < 40 || !granted:
		return c.begin(k)
	case n < 48:
		return history.Operation{Get: true}
	case n < 56:
		renew := lifecycle.Renew{Key: k.key, Token: token}
		if c.of(50) {
			renew.Lease = k.lease
		}
		if c.of(50) {
			renew.Checkpoint = []byte(c.unique("cp"))
		}
		return history.Operation{Renew: &renew}
	case n < 90:
		return c.settle(k, token)
	default:
		return c.operate(k)
	}
}

func (c *client) unique(what string) string {
	c.calls++
	return fmt.Sprintf("%s-%d-%d", what, c.id, c.calls)
}

func (c *client) begin(k *key) history.Operation {
	var o history.Operation
	if old, ok := recall(k, &k.begins, c.random); ok && c.of(15) {
		o.Begin = &old
	} else {
		o.Begin = c.newBegin(k)
	}
	if c.of(30) {
		o.Wait = time.Duration(1+c.random.IntN(150)) * time.Millisecond
	}
	return o
}

func (c *client) newBegin(k *key) *lifecycle.Begin {
	b := &lifecycle.Begin{
		Key: k.key, Fingerprint: []byte("request"), FingerprintScheme: "raw", Holder: fmt.Sprint("client ", c.id),
		Grant: policy.Default().Grant(policy.Ask{Lease: k.lease, Retention: k.retention, MaxAttempts: k.attempts, Hold: k.hold}),
	}
	if c.of(90) {
		b.CallID = c.unique("call")
	}
	if c.of(8) {
		b.Fingerprint = []byte("another")
	}
	if c.of(3) {
		b.FingerprintScheme = "jcs1"
	}
	return b
}

// settle mostly frees the key again, so that much befalls it.
func (c *client) settle(k *key, token int64) history.Operation {
	if old, ok := recall(k, &k.settlements, c.random); ok && c.of(15) {
		return history.Operation{Settle: &old}
	}
	s := lifecycle.Settle{Key: k.key, Token: token}
	text := c.unique("answer")
	switch n := c.random.IntN(100); {
	case n < 15:
		s.As, s.Response = oncekeeper.SettledComplete, &oncekeeper.Response{Body: []byte(text)}
	case n < 25:
		s.As, s.Status = oncekeeper.SettledFinal, &oncekeeper.Status{Code: 9, Message: text}
	case n < 75:
		s.As, s.Status = oncekeeper.SettledRetryable, &oncekeeper.Status{Code: 14, Message: text}
	default:
		s.As, s.Status = oncekeeper.SettledUnknown, &oncekeeper.Status{Code: 2, Message: text}
	}
	if c.of(20) {
		s.Retention = k.retention / 2
	}
	return history.Operation{Settle: &s}
}

func (c *client) operate(k *key) history.Operation {
	etag, ok := recall(k, &k.etags, c.random)
	if !ok || c.of(30) {
		return history.Operation{Get: true}
	}
	if c.of(40) {
		return history.Operation{Delete: &lifecycle.Delete{Key: k.key, Etag: etag, Force: c.of(70)}}
	}
	r := &lifecycle.Resolve{Key: k.key, Etag: etag, Force: c.of(50)}
	switch n := c.random.IntN(100); {
	case n < 10:
		r.Response = &oncekeeper.Response{Body: []byte(c.unique("by hand"))}
	case n < 20:
		r.Status = &oncekeeper.Status{Code: 9, Message: c.unique("by hand")}
	}
	return history.Operation{Resolve: r}
}

// call makes the call, records it, and remembers what there is to know from it.
func (c *client) call(ctx context.Context, k *key, o *history.Operation) {
	o.Key = k.key.ID
	c.exchange(ctx, []*history.Operation{o}, func(ctx context.Context, s server) []reply { return []reply{send(ctx, s, k, o)} })
	c.learn(k, o)
}

// learn remembers what o tells of k.
func (c *client) learn(k *key, o *history.Operation) {
	if o.Begin != nil {
		k.rememberBegin(*o.Begin)
	}
	if o.Settle != nil {
		k.rememberSettlement(*o.Settle)
	}
	a := o.Answer
	if a == nil {
		return
	}
	if a.Token != 0 {
		remember(k, &k.tokens, a.Token)
	}
	if a.Record != nil {
		remember(k, &k.tokens, a.Record.Token)
		remember(k, &k.etags, a.Record.Etag)
	}
}

// sweep deletes what is gone. It is no operation of any key: what it does is not to
// be seen.
func (c *client) sweep(ctx context.Context) {
	s := c.run.servers[c.random.IntN(len(c.run.servers))]
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, _ = s.admin.Sweep(ctx, &pb.SweepRequest{Tenant: c.run.cfg.Tenant})
}

// lastLook reads k and asks for it, until both are answered.
func (c *client) lastLook(ctx context.Context, k *key) {
	for _, o := range []history.Operation{{Get: true}, {Begin: c.newBegin(k)}, {Get: true}} {
		for !c.run.stuck.Load() && ctx.Err() == nil {
			one := o
			if c.call(ctx, k, &one); one.Answer != nil {
				break
			}
		}
	}
}
