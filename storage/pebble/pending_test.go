package pebble

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// checkPending compares what is held with what lies on the disk. No call is under way.
func (s *Store) checkPending(t *testing.T, held int) {
	t.Helper()
	if got := len(s.pending.records); got != held {
		t.Errorf("%d records are held, want %d", got, held)
	}
	sum := 0
	for key, rec := range s.pending.records {
		onDisk, _, err := readRecord(s.db, key, recordKey(key))
		if err != nil || !cmp.Equal(onDisk, rec) {
			t.Errorf("the record that is held is not the one on the disk (%v): %s", err, cmp.Diff(onDisk, rec))
		}
		sum += pendingBytes(rec)
	}
	if sum != s.pending.bytes {
		t.Errorf("%d bytes are counted of records that take %d", s.pending.bytes, sum)
	}
}

func TestARecordIsHeldUntilItsAttemptIsSettled(t *testing.T) {
	s := mustOpen(t, Config{})
	apply := func(cmd lifecycle.Command) oncekeeper.KeyRecord {
		t.Helper()
		res := s.Apply(t.Context(), cmd)[0]
		if res.Refusal() != nil {
			t.Fatal(res.Refusal())
		}
		return *res.Record
	}
	first := apply(testBegin("1", "a")).Token
	second := apply(testBegin("2", "b")).Token
	s.checkPending(t, 2)
	apply(lifecycle.Renew{Key: testKey("1"), Token: first, Checkpoint: []byte("half")})
	s.checkPending(t, 2)
	apply(testComplete("1", first, "done"))
	s.checkPending(t, 1)
	apply(lifecycle.Settle{Key: testKey("2"), Token: second, As: oncekeeper.SettledUnknown, Status: &oncekeeper.Status{Code: 2}})
	s.checkPending(t, 0)
}

func TestACommandsBytesMayBeUsedAgain(t *testing.T) {
	s := mustOpen(t, Config{})
	begin := testBegin("1", "a")
	begin.Fingerprint = []byte("0123456789abcdef")
	token := s.Apply(t.Context(), begin)[0].Record.Token
	copy(begin.Fingerprint, "overwritten by x")
	s.checkPending(t, 1)
	checkpoint := []byte("page 7")
	s.Apply(t.Context(), lifecycle.Renew{Key: begin.Key, Token: token, Checkpoint: checkpoint})
	copy(checkpoint, "page 9")
	s.checkPending(t, 1)
}

func TestPendingRecordsAreForgottenPastTheirBound(t *testing.T) {
	var p pendingRecords
	rec := func(i int) *oncekeeper.KeyRecord {
		return &oncekeeper.KeyRecord{Key: testKey(fmt.Sprint(i)), State: oncekeeper.StoredPending, Checkpoint: make([]byte, oncekeeper.MaxCheckpointBytes)}
	}
	most := 0
	for i := range 3 * maxPendingBytes / oncekeeper.MaxCheckpointBytes {
		p.follow(testKey(fmt.Sprint(i)), rec(i))
		most = max(most, p.bytes)
		if p.get(testKey(fmt.Sprint(i))) == nil {
			t.Fatal("the last record written is not held")
		}
	}
	if most > maxPendingBytes || most < maxPendingBytes/2 {
		t.Errorf("%d bytes were held at the most, want up to %d", most, maxPendingBytes)
	}
}
