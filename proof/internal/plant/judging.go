package plant

import (
	"context"
	"time"

	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

func unfenced(ctx context.Context, inner storage.Store, cmd lifecycle.Command) storage.Result {
	c, settles := cmd.(lifecycle.Settle)
	if !settles || !seldom() {
		return inner.Apply(ctx, cmd)[0]
	}
	if found, err := inner.Read(ctx, c.Key); err == nil && found.Records[0] != nil {
		c.Token = max(c.Token, found.Records[0].Token)
	}
	return inner.Apply(ctx, c)[0]
}

func seizing(ctx context.Context, inner storage.Store, cmd lifecycle.Command) storage.Result {
	res := inner.Apply(ctx, cmd)[0]
	if res.Err != nil || res.Verdict != lifecycle.InProgress || !seldom() {
		return res
	}
	freed := inner.Apply(ctx, lifecycle.Resolve{Key: cmd.Target(), Etag: res.Record.Etag(), Force: true, Reason: "planted"})[0]
	if freed.Refusal() != nil {
		return res
	}
	return inner.Apply(ctx, cmd)[0]
}

func anyRequest(ctx context.Context, inner storage.Store, cmd lifecycle.Command) storage.Result {
	res := inner.Apply(ctx, cmd)[0]
	c, begins := cmd.(lifecycle.Begin)
	if !begins || res.Err != nil || res.Verdict != lifecycle.Mismatch || !seldom() {
		return res
	}
	c.Fingerprint = res.Record.Fingerprint
	return inner.Apply(ctx, c)[0]
}

func echoed(ctx context.Context, inner storage.Store, cmd lifecycle.Command) storage.Result {
	res := inner.Apply(ctx, cmd)[0]
	if res.Err != nil || !seldom() {
		return res
	}
	if c, begins := cmd.(lifecycle.Begin); begins {
		c.CallID = ""
		cmd = c
	}
	return inner.Apply(ctx, cmd)[0]
}

// slowly answers a change once it is on disk; whoever reads meanwhile sees it. See
// Files.
func slowly(ctx context.Context, inner storage.Store, cmd lifecycle.Command) storage.Result {
	res := inner.Apply(ctx, cmd)[0]
	if _, begins := cmd.(lifecycle.Begin); !begins || res.Verdict == lifecycle.Granted {
		time.Sleep(2 * syncAfter)
	}
	return res
}
