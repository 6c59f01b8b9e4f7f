package storagetest

import (
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/lifecycle/lifecycletest"
	"github.com/oncekeeper/oncekeeper/storage"
)

// failer is what a *testing.T and a *rapid.T have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

var _ failer = testing.TB(nil)

// mirror is what lifecycle alone makes of the commands that a store was given, at
// the moments at which the store says that it judged them.
type mirror map[oncekeeper.Key]*oncekeeper.KeyRecord

// judged holds a store's Result against lifecycle's.
func (m mirror) judged(t failer, cmd lifecycle.Command, got storage.Result) {
	t.Helper()
	if got.Err != nil {
		t.Fatalf("%T%+v: got error %v, want a verdict", cmd, cmd, got.Err)
	}
	before := m[cmd.Target()]
	want, verdict := lifecycle.Apply(before, cmd, got.Now)
	if got.Verdict != verdict {
		t.Fatalf("%T%+v at %d: got %v, want %v\nrecord before: %+v\nrecord given: %+v",
			cmd, cmd, got.Now, got.Verdict, verdict, before, got.Record)
	}
	// Of a record that is gone it makes no difference whether it is still stored.
	if verdict != lifecycle.NotFound {
		if difference := lifecycletest.Diff(want, got.Record); difference != "" {
			t.Fatalf("%T%+v at %d: %v, and the record differs (-want +got):\n%s", cmd, cmd, got.Now, verdict, difference)
		}
	}
	m[cmd.Target()] = want
}

// at gives the record that a reader sees at now; nil for none.
func (m mirror) at(key oncekeeper.Key, now oncekeeper.Instant) *oncekeeper.KeyRecord {
	if rec := m[key]; rec != nil && !lifecycle.Gone(rec, now) {
		return rec
	}
	return nil
}

// read holds a store's Snapshot against what it was given.
func (m mirror) read(t failer, keys []oncekeeper.Key, got storage.Snapshot) {
	t.Helper()
	if len(got.Records) != len(keys) {
		t.Fatalf("read %d keys: got %d records", len(keys), len(got.Records))
	}
	for i, key := range keys {
		if difference := lifecycletest.Diff(m.at(key, got.Now), got.Records[i]); difference != "" {
			t.Fatalf("read %q at %d, number %d (-want +got):\n%s", key, got.Now, i, difference)
		}
	}
}
