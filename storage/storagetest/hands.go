package storagetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

const (
	lease     = time.Minute
	retention = time.Hour
	unsettled = 30 * 24 * time.Hour
)

var background = context.Background()

// hands hold a store, and hold all that it answers against its mirror.
type hands struct {
	testing.TB
	Opened
	mirror mirror
	last   oncekeeper.Instant
	calls  int
}

func newHands(t testing.TB, o Opened) *hands {
	return &hands{TB: t, Opened: o, mirror: mirror{}}
}

// apply has cmds judged, expects lifecycle's verdicts, and gives the results.
func (h *hands) apply(cmds ...lifecycle.Command) []storage.Result {
	h.Helper()
	results := h.Store.Apply(background, cmds...)
	if len(results) != len(cmds) {
		h.Fatalf("%d commands: got %d results", len(cmds), len(results))
	}
	for i, res := range results {
		h.mirror.judged(h, cmds[i], res)
	}
	h.last = momentsOf(h, cmds, results, h.last)
	return results
}

// momentsOf expects that no command of a call was judged before last, nor before
// an earlier one of the call on its key, and gives the latest moment.
func momentsOf(t failer, cmds []lifecycle.Command, results []storage.Result, last oncekeeper.Instant) oncekeeper.Instant {
	t.Helper()
	latest := last
	keys := map[oncekeeper.Key]oncekeeper.Instant{}
	for i, res := range results {
		key := cmds[i].Target()
		if before := max(last, keys[key]); res.Now < before {
			t.Fatalf("command %d, %T: the store's clock went back from %d to %d", i, cmds[i], before, res.Now)
		}
		keys[key], latest = res.Now, max(latest, res.Now)
	}
	return latest
}

// want has cmd judged, expects that verdict, and gives the result.
func (h *hands) want(verdict lifecycle.Verdict, cmd lifecycle.Command) storage.Result {
	h.Helper()
	res := h.apply(cmd)[0]
	if res.Verdict != verdict {
		h.Fatalf("%T%+v: got %v, want %v; record %+v", cmd, cmd, res.Verdict, verdict, res.Record)
	}
	return res
}

// seen expects that the store's clock never goes back.
func (h *hands) seen(now oncekeeper.Instant) {
	h.Helper()
	if now < h.last {
		h.Fatalf("the store's clock went back from %d to %d", h.last, now)
	}
	h.last = now
}

// read reads keys and expects what the mirror has.
func (h *hands) read(keys ...oncekeeper.Key) storage.Snapshot {
	h.Helper()
	got, err := h.Store.Read(background, keys...)
	if err != nil {
		h.Fatalf("read: %v", err)
	}
	h.mirror.read(h, keys, got)
	h.seen(got.Now)
	return got
}

// absent expects that there is no record of key.
func (h *hands) absent(key oncekeeper.Key) {
	h.Helper()
	if rec := h.read(key).Records[0]; rec != nil {
		h.Fatalf("read %q: got %+v, want none", key, rec)
	}
}

// sweep sweeps once.
func (h *hands) sweep(q storage.SweepQuery) storage.Swept {
	h.Helper()
	swept, err := h.Store.Sweep(background, q)
	if err != nil {
		h.Fatalf("sweep %+v: %v", q, err)
	}
	if swept.Records > int64(q.Limit) || swept.Records < 0 {
		h.Fatalf("sweep %+v: got %d records", q, swept.Records)
	}
	return swept
}

// sweepOut sweeps until nothing more is left and gives how many it deleted.
func (h *hands) sweepOut(q storage.SweepQuery) int64 {
	h.Helper()
	var sum int64
	for range 10_000 {
		swept := h.sweep(q)
		sum += swept.Records
		if !swept.More {
			return sum
		}
	}
	h.Fatalf("sweep %+v: more is always left, after %d records", q, sum)
	return 0
}

// sweepAll sweeps a tenant with no grace.
func sweepAll(h *hands, tenant string) {
	h.Helper()
	h.sweepOut(storage.SweepQuery{Tenant: tenant, Limit: 1000})
}

// reopen opens the store again and says whether that can be.
func (h *hands) reopen() bool {
	h.Helper()
	if h.Reopen == nil {
		h.Log("this store cannot be opened again on the same data: what survives was not looked at")
		return false
	}
	h.Store = h.Reopen()
	return true
}

// begins gives a Begin with a call id of its own.
func (h *hands) begins(key oncekeeper.Key) lifecycle.Begin {
	h.calls++
	return lifecycle.Begin{
		Key: key, Fingerprint: []byte("digest"), FingerprintScheme: "raw",
		CallID: fmt.Sprintf("call-%d", h.calls), Holder: "holder", Principal: "shop",
		Grant: oncekeeper.Grant{Lease: lease, Retention: retention, UnsettledRetention: unsettled},
	}
}

// granted begins key and gives its token.
func (h *hands) granted(key oncekeeper.Key) int64 {
	h.Helper()
	return h.want(lifecycle.Granted, h.begins(key)).Record.Token
}

// completed begins and completes key and gives its token.
func (h *hands) completed(key oncekeeper.Key) int64 {
	h.Helper()
	token := h.granted(key)
	h.want(lifecycle.Settled, completes(key, token))
	return token
}

func completes(key oncekeeper.Key, token int64) lifecycle.Settle {
	return lifecycle.Settle{
		Key: key, Token: token, As: oncekeeper.SettledComplete,
		Response: &oncekeeper.Response{Body: []byte("paid"), ContentType: "text/plain"},
	}
}

func fails(key oncekeeper.Key, token int64, as oncekeeper.Settlement) lifecycle.Settle {
	return lifecycle.Settle{
		Key: key, Token: token, As: as,
		Status: &oncekeeper.Status{Code: 9, Message: "no funds", Details: [][]byte{{1, 0, 255}}},
	}
}

func keyOf(id string) oncekeeper.Key {
	return oncekeeper.Key{Tenant: "shop", Operation: "pay.Payments/Charge", ID: id}
}

// keysOf gives n keys.
func keysOf(n int) []oncekeeper.Key {
	keys := make([]oncekeeper.Key, n)
	for i := range keys {
		keys[i] = keyOf(fmt.Sprintf("k-%04d", i))
	}
	return keys
}

func expect[V comparable](h *hands, what string, got, want V) {
	h.Helper()
	if got != want {
		h.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
