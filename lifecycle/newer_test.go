package lifecycle_test

import (
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// newer gives records as a later version may write them.
func newer() map[string]*oncekeeper.KeyRecord {
	records := map[string]*oncekeeper.KeyRecord{}
	for name, change := range map[string]func(*oncekeeper.KeyRecord){
		"state above those known":      func(r *oncekeeper.KeyRecord) { r.State = oncekeeper.StoredFailed + 1 },
		"state far above those known":  func(r *oncekeeper.KeyRecord) { r.State = 255 },
		"no state":                     func(r *oncekeeper.KeyRecord) { r.State = 0 },
		"settlement above those known": func(r *oncekeeper.KeyRecord) { r.Last = oncekeeper.SettledUnknown + 1 },
	} {
		rec := &oncekeeper.KeyRecord{
			Key: key, State: oncekeeper.StoredPending, Token: 5, Revision: 3, Attempt: 1,
			Fingerprint: []byte("digest"), FingerprintScheme: "raw", CallID: "call",
			Granted: standard, LeaseEnd: start, Expires: start,
		}
		change(rec)
		records[name] = rec
	}
	return records
}

func TestARecordOfANewerVersionIsBusyAndNeverFreeOrGone(t *testing.T) {
	for name, rec := range newer() {
		t.Run(name, func(t *testing.T) {
			later := start.Add(365 * 24 * time.Hour)
			if lifecycle.Gone(rec, later) {
				t.Error("it is gone")
			}
			if state := lifecycle.StateAt(rec, later); state != oncekeeper.StatePending {
				t.Errorf("it reads as %v, want PENDING", state)
			}
			for _, c := range []struct {
				cmd  lifecycle.Command
				want lifecycle.Verdict
			}{
				{ask, lifecycle.InProgress},
				{asked(func(c *lifecycle.Begin) { c.CallID = "call" }), lifecycle.InProgress},
				{asked(func(c *lifecycle.Begin) { c.Fingerprint = []byte("another") }), lifecycle.InProgress},
				{lifecycle.Renew{Key: key, Token: 5}, lifecycle.Unreadable},
				{as(oncekeeper.SettledUnknown, 5), lifecycle.Unreadable},
				{as(oncekeeper.SettledRetryable, 4), lifecycle.Unreadable},
				{lifecycle.Resolve{Key: key, Etag: rec.Etag(), Force: true}, lifecycle.Unreadable},
				{lifecycle.Delete{Key: key, Etag: rec.Etag(), Force: true}, lifecycle.Unreadable},
			} {
				if got := must(t, c.want, rec, c.cmd, later); got != rec {
					t.Errorf("%T changed it to %+v", c.cmd, got)
				}
			}
		})
	}
}

type unheardOf struct{}

func (unheardOf) Target() oncekeeper.Key { return key }

func TestACommandOfANewerVersionChangesNothing(t *testing.T) {
	rec := must(t, lifecycle.Granted, nil, ask, start)
	for _, cmd := range []lifecycle.Command{unheardOf{}, as(oncekeeper.SettledUnknown+1, rec.Token), as(oncekeeper.SettledNot, rec.Token)} {
		if got := must(t, lifecycle.Unreadable, rec, cmd, start); got != rec {
			t.Errorf("%T changed the record to %+v", cmd, got)
		}
	}
}

func TestEveryVerdictHasANameAndEveryRefusalASentinel(t *testing.T) {
	refusals := map[lifecycle.Verdict]error{
		lifecycle.Mismatch:       oncekeeper.ErrFingerprintMismatch,
		lifecycle.NotFound:       oncekeeper.ErrKeyNotFound,
		lifecycle.Fenced:         oncekeeper.ErrFenced,
		lifecycle.AlreadySettled: oncekeeper.ErrAlreadySettled,
		lifecycle.EtagMismatch:   oncekeeper.ErrEtagMismatch,
		lifecycle.Live:           oncekeeper.ErrInProgress,
		lifecycle.Unreadable:     oncekeeper.ErrStoreUnavailable,
	}
	names := map[string]lifecycle.Verdict{}
	for _, v := range []lifecycle.Verdict{
		lifecycle.Granted, lifecycle.Replayed, lifecycle.InProgress, lifecycle.Unresolved, lifecycle.Mismatch,
		lifecycle.Renewed, lifecycle.Settled, lifecycle.Resolved, lifecycle.Deleted, lifecycle.NotFound,
		lifecycle.Fenced, lifecycle.AlreadySettled, lifecycle.EtagMismatch, lifecycle.Live, lifecycle.Unreadable,
	} {
		if other, taken := names[v.String()]; taken {
			t.Errorf("%q names both %d and %d", v, other, v)
		}
		names[v.String()] = v
		if got := v.Err(); got != refusals[v] {
			t.Errorf("%v: got error %v, want %v", v, got, refusals[v])
		}
	}
	if got := lifecycle.Verdict(255).String(); got != "Verdict(255)" {
		t.Errorf("an unknown verdict is called %q", got)
	}
}
