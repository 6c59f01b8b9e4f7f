package pebble

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// checkHeld compares what is held with what lies on the disk. No call is under way.
func (s *Store) checkHeld(t *testing.T, held int) {
	t.Helper()
	if got := len(s.held.records); got != held {
		t.Errorf("%d records are held, want %d", got, held)
	}
	sum := 0
	for key, rec := range s.held.records {
		onDisk, err := readRecord(s.db, key, recordKey(key))
		if err != nil || !cmp.Equal(onDisk, rec) {
			t.Errorf("the record that is held is not the one on the disk (%v): %s", err, cmp.Diff(onDisk, rec))
		}
		sum += heldBytes(rec)
	}
	if sum != s.held.bytes {
		t.Errorf("%d bytes are counted of records that take %d", s.held.bytes, sum)
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
	s.checkHeld(t, 2)
	apply(lifecycle.Renew{Key: testKey("1"), Token: first, Checkpoint: []byte("half")})
	s.checkHeld(t, 2)
	apply(testComplete("1", first, "done"))
	s.checkHeld(t, 1)
	apply(lifecycle.Settle{Key: testKey("2"), Token: second, As: oncekeeper.SettledUnknown, Status: &oncekeeper.Status{Code: 2}})
	s.checkHeld(t, 0)
}

func TestARecordThatWasAskedForIsHeldUntilItChanges(t *testing.T) {
	s := mustOpen(t, Config{})
	token := s.Apply(t.Context(), testBegin("1", "a"))[0].Record.Token
	s.Apply(t.Context(), testComplete("1", token, "done"))
	s.checkHeld(t, 0)
	for range 2 {
		if res := s.Apply(t.Context(), testBegin("1", "b"))[0]; res.Verdict != lifecycle.Replayed || string(res.Record.Response.Body) != "done" {
			t.Fatalf("the replay is %+v", res)
		}
		s.checkHeld(t, 1)
	}
	rec := s.Apply(t.Context(), testBegin("1", "b"))[0].Record
	res := s.Apply(t.Context(), lifecycle.Delete{Key: rec.Key, Etag: rec.Etag(), Force: true, Reason: "so"})[0]
	if res.Refusal() != nil {
		t.Fatal(res.Refusal())
	}
	s.checkHeld(t, 0)
	if res := s.Apply(t.Context(), testBegin("1", "c"))[0]; res.Verdict != lifecycle.Granted {
		t.Errorf("after its delete the key is %v", res.Verdict)
	}
}

func TestARecordThatIsTooLargeIsNotHeld(t *testing.T) {
	s := mustOpen(t, Config{})
	token := s.Apply(t.Context(), testBegin("1", "a"))[0].Record.Token
	s.Apply(t.Context(), testComplete("1", token, strings.Repeat("x", maxHeldRecord)))
	s.Apply(t.Context(), testBegin("1", "b"))
	s.checkHeld(t, 0)
}

func TestACommandsBytesMayBeUsedAgain(t *testing.T) {
	s := mustOpen(t, Config{})
	begin := testBegin("1", "a")
	begin.Fingerprint = []byte("0123456789abcdef")
	token := s.Apply(t.Context(), begin)[0].Record.Token
	copy(begin.Fingerprint, "overwritten by x")
	s.checkHeld(t, 1)
	checkpoint := []byte("page 7")
	s.Apply(t.Context(), lifecycle.Renew{Key: begin.Key, Token: token, Checkpoint: checkpoint})
	copy(checkpoint, "page 9")
	s.checkHeld(t, 1)
}

func TestHeldRecordsAreForgottenPastTheirBound(t *testing.T) {
	var p heldRecords
	rec := func(i int) *oncekeeper.KeyRecord {
		return &oncekeeper.KeyRecord{Key: testKey(fmt.Sprint(i)), State: oncekeeper.StoredPending, Checkpoint: make([]byte, oncekeeper.MaxCheckpointBytes)}
	}
	most := 0
	for i := range 3 * maxHeldBytes / oncekeeper.MaxCheckpointBytes {
		p.wrote(testKey(fmt.Sprint(i)), rec(i))
		most = max(most, p.bytes)
		if p.get(testKey(fmt.Sprint(i))) == nil {
			t.Fatal("the last record written is not held")
		}
	}
	if most > maxHeldBytes || most < maxHeldBytes/2 {
		t.Errorf("%d bytes were held at the most, want up to %d", most, maxHeldBytes)
	}
}
