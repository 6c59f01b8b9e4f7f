package storagetest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/lifecycle/lifecycletest"
	"github.com/oncekeeper/oncekeeper/storage"
)

func byKey(a, b oncekeeper.Key) int {
	return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Operation, b.Operation), strings.Compare(a.ID, b.ID))
}

// listed holds a listing whole, of all pages, against what it was to select.
func (m mirror) listed(t failer, q storage.ListQuery, now oncekeeper.Instant, got []*oncekeeper.KeyRecord) {
	t.Helper()
	if q.Order == storage.ByAge {
		if !slices.IsSortedFunc(got, func(a, b *oncekeeper.KeyRecord) int { return cmp.Compare(a.LeaseEnd, b.LeaseEnd) }) {
			t.Fatalf("list %+v: not by the end of the lease", q)
		}
		// Records whose leases end together may come in any order.
		got = slices.Clone(got)
		slices.SortFunc(got, func(a, b *oncekeeper.KeyRecord) int { return byKey(a.Key, b.Key) })
	}
	var want []*oncekeeper.KeyRecord
	for _, rec := range m {
		if rec != nil && !lifecycle.Gone(rec, now) && selects(q, rec, now) {
			want = append(want, rec)
		}
	}
	slices.SortFunc(want, func(a, b *oncekeeper.KeyRecord) int { return byKey(a.Key, b.Key) })
	if len(got) != len(want) {
		t.Fatalf("list %+v: got %d records, want %d:\n got %v\nwant %v", q, len(got), len(want), keysIn(got), keysIn(want))
	}
	for i := range want {
		if difference := lifecycletest.Diff(want[i], got[i]); difference != "" {
			t.Fatalf("list %+v: record %d (-want +got):\n%s", q, i, difference)
		}
	}
}

func selects(q storage.ListQuery, rec *oncekeeper.KeyRecord, now oncekeeper.Instant) bool {
	state := lifecycle.StateAt(rec, now)
	return (q.Tenant == "" || q.Tenant == rec.Key.Tenant) &&
		(q.Operation == "" || q.Operation == rec.Key.Operation) &&
		strings.HasPrefix(rec.Key.ID, q.IDPrefix) &&
		(len(q.States) == 0 || slices.Contains(q.States, state)) &&
		(q.CreatedFrom == 0 || rec.Created >= q.CreatedFrom) && (q.CreatedTo == 0 || rec.Created < q.CreatedTo) &&
		(q.Order == storage.ByKey || state <= oncekeeper.StateUnresolved)
}

func keysIn(records []*oncekeeper.KeyRecord) []oncekeeper.Key {
	var keys []oncekeeper.Key
	for _, rec := range records {
		keys = append(keys, rec.Key)
	}
	return keys
}
