package pebble

import (
	"bytes"

	"github.com/oncekeeper/oncekeeper"
)

// pendingRecords are records of attempts that were not settled, as they lie on the
// disk: what a Complete asks for was mostly written a moment ago. It holds no other
// record, so it grows with what callers have under way, and with what they abandoned;
// past maxPendingBytes it forgets all, and what is asked for is read from the disk. It
// is the committer's alone, which makes every change of a record.
type pendingRecords struct {
	records map[oncekeeper.Key]*oncekeeper.KeyRecord
	bytes   int
}

const maxPendingBytes = 32 << 20

// get gives the record of key, or nil where it is not held.
func (p *pendingRecords) get(key oncekeeper.Key) *oncekeeper.KeyRecord { return p.records[key] }

// follow keeps rec, which was written, where its attempt is not settled, and forgets
// what it replaces.
func (p *pendingRecords) follow(key oncekeeper.Key, rec *oncekeeper.KeyRecord) {
	if old := p.records[key]; old != nil {
		p.bytes -= pendingBytes(old)
		delete(p.records, key)
	}
	if !unsettled(rec) {
		return
	}
	size := pendingBytes(rec)
	if p.records == nil || p.bytes+size > maxPendingBytes {
		p.records, p.bytes = map[oncekeeper.Key]*oncekeeper.KeyRecord{}, 0
	}
	own := *rec
	// A command's own bytes, which its caller may use again.
	own.Fingerprint, own.Checkpoint = bytes.Clone(rec.Fingerprint), bytes.Clone(rec.Checkpoint)
	p.records[key] = &own
	p.bytes += size
}

func unsettled(rec *oncekeeper.KeyRecord) bool {
	return rec != nil && rec.State == oncekeeper.StoredPending && rec.Last == oncekeeper.SettledNot && rec.Response == nil && rec.Status == nil
}

// pendingBytes is about how much memory rec takes.
func pendingBytes(rec *oncekeeper.KeyRecord) int {
	const fixed, entry = 1 << 10, 512
	size := fixed + len(rec.Key.Tenant) + len(rec.Key.Operation) + len(rec.Key.ID) + len(rec.Fingerprint) + len(rec.Checkpoint) +
		len(rec.CallID) + len(rec.Holder) + len(rec.Principal)
	for _, h := range rec.History {
		size += entry + len(h.Message) + len(h.Reason)
	}
	return size
}
