package pebble

import (
	"bytes"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/storage"
)

// heldRecords are records as they lie on the disk, so that they need not be read from
// it: those of attempts that are not settled, since a Complete asks for what was mostly
// written a moment ago, and those that were read, since who replays an answer often
// does so again. What is written and settled is not held until somebody asks for it.
// Past maxHeldBytes all is forgotten. It is the committer's alone, which makes every
// change of a record.
type heldRecords struct {
	records map[oncekeeper.Key]*oncekeeper.KeyRecord
	bytes   int
}

const (
	maxHeldBytes = 16 << 20
	// maxHeldRecord is what one may take of it.
	maxHeldRecord = 64 << 10
)

// get gives the record of key, or nil where it is not held.
func (h *heldRecords) get(key oncekeeper.Key) *oncekeeper.KeyRecord { return h.records[key] }

// read holds rec, which shares nothing and was read from the disk; nil for none.
func (h *heldRecords) read(rec *oncekeeper.KeyRecord) {
	if rec == nil {
		return
	}
	size := heldBytes(rec)
	if size > maxHeldRecord {
		return
	}
	if h.records == nil || h.bytes+size > maxHeldBytes {
		h.records, h.bytes = map[oncekeeper.Key]*oncekeeper.KeyRecord{}, 0
	}
	h.records[rec.Key] = rec
	h.bytes += size
}

// wrote forgets what was held of key, and holds rec in its place, which was written
// and may be nil, where its attempt is not settled.
func (h *heldRecords) wrote(key oncekeeper.Key, rec *oncekeeper.KeyRecord) {
	if old := h.records[key]; old != nil {
		h.bytes -= heldBytes(old)
		delete(h.records, key)
	}
	if rec == nil || rec.State != oncekeeper.StoredPending || rec.Response != nil || rec.Status != nil {
		return
	}
	own := *rec
	// A command's own bytes, which its caller may use again.
	own.Fingerprint, own.Checkpoint = bytes.Clone(rec.Fingerprint), bytes.Clone(rec.Checkpoint)
	h.read(&own)
}

// heldBytes is about how much memory rec takes.
func heldBytes(rec *oncekeeper.KeyRecord) int {
	const fixed, entry = 640, 512
	size := fixed + len(rec.Key.Tenant) + len(rec.Key.Operation) + len(rec.Key.ID) + len(rec.Fingerprint) + len(rec.Checkpoint) +
		len(rec.CallID) + len(rec.Holder) + len(rec.Principal) + storage.ResponseBytes(rec.Response) + storage.StatusBytes(rec.Status)
	for _, e := range rec.History {
		size += entry + len(e.Message) + len(e.Reason)
	}
	return size
}
