package pebble

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/lifecycle/lifecycletest"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/internal/codec"
)

// ledger is every version of every record that was ever answered, and the latest
// of each key that its callers know of by now. A history ends with nothing under
// way, so that by then every version is in it.
type ledger struct {
	known    sync.Mutex
	versions map[oncekeeper.Key]map[place]version
	acked    map[oncekeeper.Key]place
	seen     map[oncekeeper.Key]lifecycletest.Past
	// now is the latest moment that was told, and written the latest at which there
	// was something to write.
	now, written oncekeeper.Instant
	// sweeps counts those that were begun, and backups too.
	sweeps, backups int
	backup          backup
	fault           error
}

// backup is the last one that was begun, and what was known then.
type backup struct {
	dir  string
	made bool
	of   knowledge
}

// place orders the versions of a key.
type place struct{ token, revision int64 }

func (p place) before(q place) bool {
	return cmp.Or(cmp.Compare(p.token, q.token), cmp.Compare(p.revision, q.revision)) < 0
}

func placeOf(rec *oncekeeper.KeyRecord) place { return place{rec.Token, rec.Revision} }

// sweptAt is the place of a record's absence, once it was swept.
func sweptAt(rec *oncekeeper.KeyRecord) place { return place{rec.Token, math.MaxInt64} }

// version is a record as a command left it; nil: it was swept.
type version struct {
	rec *oncekeeper.KeyRecord
	// by is the first command that was answered with it.
	by      lifecycle.Command
	verdict lifecycle.Verdict
	// sweep is the number of the one that took it, where it was swept.
	sweep int
}

func newLedger() ledger {
	return ledger{
		versions: map[oncekeeper.Key]map[place]version{}, acked: map[oncekeeper.Key]place{},
		seen: map[oncekeeper.Key]lifecycletest.Past{},
	}
}

// answered takes down what a caller was told.
func (l *ledger) answered(cmd lifecycle.Command, res storage.Result) {
	l.known.Lock()
	defer l.known.Unlock()
	if res.Err != nil {
		l.fault = fmt.Errorf("%T was not judged: %w", cmd, res.Err)
	}
	l.now = max(l.now, res.Now)
	if res.Record == nil || res.Verdict == lifecycle.NotFound {
		return
	}
	if l.add(cmd.Target(), placeOf(res.Record), version{rec: res.Record, by: cmd, verdict: res.Verdict}) {
		l.written = max(l.written, res.Now)
	}
	past := l.seen[cmd.Target()]
	past.See(res.Record)
	l.seen[cmd.Target()] = past
}

// add says whether the version is new.
func (l *ledger) add(key oncekeeper.Key, at place, v version) bool {
	if l.versions[key] == nil {
		l.versions[key] = map[place]version{}
	}
	_, there := l.versions[key][at]
	if !there {
		l.versions[key][at] = v
	}
	if l.acked[key].before(at) {
		l.acked[key] = at
	}
	return !there
}

func (l *ledger) past(key oncekeeper.Key) lifecycletest.Past {
	l.known.Lock()
	defer l.known.Unlock()
	return l.seen[key]
}

// ends gives the moments at which something of a record ends.
func (l *ledger) ends() (ends []oncekeeper.Instant) {
	for _, key := range ledgerKeys {
		if v := l.versions[key][l.acked[key]]; v.rec != nil {
			ends = append(ends, lifecycletest.Ends(v.rec)...)
		}
	}
	return ends
}

// sweeping says which records a sweep at now will delete: they may be missing
// from then on, and must be once it was answered.
func (l *ledger) sweeping(now oncekeeper.Instant) (gone map[oncekeeper.Key]place) {
	l.known.Lock()
	defer l.known.Unlock()
	l.sweeps++
	gone = map[oncekeeper.Key]place{}
	for key, at := range l.acked {
		if rec := l.versions[key][at].rec; rec != nil && lifecycle.Gone(rec, now) {
			gone[key] = sweptAt(rec)
			l.versions[key][sweptAt(rec)] = version{sweep: l.sweeps}
		}
	}
	return gone
}

func (l *ledger) swept(gone map[oncekeeper.Key]place) {
	l.known.Lock()
	defer l.known.Unlock()
	for key, at := range gone {
		l.add(key, at, version{})
	}
}

// knowledge is what is known at a moment.
type knowledge struct {
	acked   map[oncekeeper.Key]place
	written oncekeeper.Instant
	sweeps  int
	backup  *backup
}

func (l *ledger) knows() knowledge {
	l.known.Lock()
	defer l.known.Unlock()
	copied := l.backup
	return knowledge{maps.Clone(l.acked), l.written, l.sweeps, &copied}
}

func (l *ledger) backingUp() (dir string) {
	of := l.knows()
	l.known.Lock()
	defer l.known.Unlock()
	l.backups++
	l.backup = backup{dir: fmt.Sprintf("%s-%d", powerDir, l.backups), of: of}
	return l.backup.dir
}

func (l *ledger) backedUp() {
	l.known.Lock()
	defer l.known.Unlock()
	l.backup.made = true
}

// inspect opens what a power cut left, and gives what is wrong with it.
func (l *ledger) inspect(i image) error {
	// The machine comes back with a clock that is an hour behind.
	clk := clock.NewManual(time.Date(2029, 12, 31, 23, 0, 0, 0, time.UTC))
	s, err := Open(Config{Dir: powerDir, FS: i.fs, Clock: clk, CacheBytes: 1 << 20})
	if err != nil {
		return fmt.Errorf("it does not open: %w", err)
	}
	return errors.Join(l.holds(s, i), whole(s.db), l.goesOn(s, i, clk), whole(s.db), s.Close(), l.restores(i))
}

// restores: a backup that was made is there, and one that has its name is whole and
// has what was known when it was begun.
func (l *ledger) restores(i image) error {
	b := i.backup
	if b.dir == "" {
		return nil
	}
	if _, err := i.fs.Stat(b.dir); err != nil {
		if b.made {
			return fmt.Errorf("lost: a backup that was made: %w", err)
		}
		return nil
	}
	s, err := Open(Config{Dir: b.dir, FS: i.fs, CacheBytes: 1 << 20})
	if err != nil {
		return fmt.Errorf("the backup does not open: %w", err)
	}
	of := image{fs: i.fs, knowledge: b.of}
	of.sweeps = i.sweeps // one may have come before it was made
	return errors.Join(l.holds(s, of), whole(s.db), s.Close())
}

// holds: of each key there is a version that was answered, then or later, and none
// before the latest that was acknowledged.
func (l *ledger) holds(s *Store, i image) error {
	for _, key := range ledgerKeys {
		rec, err := readRecord(s.db, key, recordKey(key))
		if err != nil {
			return err
		}
		if rec == nil {
			if !l.mayBeMissing(key, i) {
				return fmt.Errorf("lost: key %s was acknowledged as %v, and there is no record", key.ID, i.acked[key])
			}
			continue
		}
		v, there := l.versions[key][placeOf(rec)]
		if !there {
			return fmt.Errorf("key %s has a record that no command left: %+v", key.ID, rec)
		}
		if difference := lifecycletest.Diff(v.rec, rec); difference != "" {
			return fmt.Errorf("key %s differs from what was answered (-answered +stored):\n%s", key.ID, difference)
		}
		if placeOf(rec).before(i.acked[key]) {
			return fmt.Errorf("lost: key %s was acknowledged as %v, and is stored as %v", key.ID, i.acked[key], placeOf(rec))
		}
	}
	return nil
}

// mayBeMissing: nothing of the key was acknowledged, or a sweep that had begun took
// what was acknowledged last.
func (l *ledger) mayBeMissing(key oncekeeper.Key, i image) bool {
	acked := i.acked[key]
	if acked == (place{}) {
		return true
	}
	for at, v := range l.versions[key] {
		if v.rec == nil && !at.before(acked) && v.sweep <= i.sweeps {
			return true
		}
	}
	return false
}

// goesOn: whoever did not hear the answer to an acknowledged command asks again
// and gets the same; and new attempts get greater tokens than any acknowledged.
func (l *ledger) goesOn(s *Store, i image, clk *clock.Manual) error {
	ctx := context.Background()
	at, err := s.Read(ctx)
	if err != nil {
		return err
	}
	if at.Now < i.written {
		return fmt.Errorf("the clock is at %v, and something was written at %v", at.Now.Time(), i.written.Time())
	}
	for _, key := range ledgerKeys {
		rec, err := readRecord(s.db, key, recordKey(key))
		if err != nil {
			return err
		}
		v := l.versions[key][i.acked[key]]
		if rec != nil && placeOf(rec) == i.acked[key] && !lifecycle.Gone(rec, at.Now) && repeats(v) {
			again := s.Apply(ctx, v.by)[0]
			if again.Err != nil || again.Verdict != v.verdict || again.Record.Token != rec.Token {
				return fmt.Errorf("key %s: %T was answered %v, and asked again %v %v", key.ID, v.by, v.verdict, again.Verdict, again.Err)
			}
		}
	}
	clk.Advance(10_000 * time.Hour)
	for _, key := range ledgerKeys {
		res := s.Apply(ctx, testBegin(key.ID, "after the power cut"))[0]
		if res.Err != nil {
			return fmt.Errorf("key %s is not judged: %w", key.ID, res.Err)
		}
		if res.Verdict == lifecycle.Granted && res.Record.Token <= i.acked[key].token {
			return fmt.Errorf("key %s: token %d was granted after %d", key.ID, res.Record.Token, i.acked[key].token)
		}
	}
	return nil
}

// repeats says whether v's command, asked again at once, has v's verdict.
func repeats(v version) bool {
	switch c := v.by.(type) {
	case lifecycle.Begin:
		return v.verdict == lifecycle.Granted && c.CallID != ""
	case lifecycle.Settle:
		return v.verdict == lifecycle.Settled
	default:
		return false
	}
}

// whole: every index entry has its record, every record its entries, and there is
// nothing else.
func whole(db *pebble.DB) error {
	want, got := map[string]bool{}, map[string]bool{}
	iter, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	for valid := iter.First(); valid; valid = iter.Next() {
		switch raw := iter.Key(); raw[0] {
		case spaceRecord:
			key, err := decodeKey(raw[1:])
			if err != nil {
				return errors.Join(err, iter.Close())
			}
			rec, err := codec.Decode(key, iter.Value())
			if err != nil {
				return errors.Join(err, iter.Close())
			}
			for _, e := range indexEntries(rec) {
				if e.at != 0 {
					want[string(indexKey(e.space, e.at, key))] = true
				}
			}
		case spaceExpiry, spacePending:
			got[string(raw)] = true
		default:
			if !bytes.Equal(raw, metaFormat) && !bytes.Equal(raw, metaClock) {
				return errors.Join(fmt.Errorf("there is %q, which nobody writes", raw), iter.Close())
			}
		}
	}
	if err := errors.Join(iter.Error(), iter.Close()); err != nil {
		return err
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("the indexes have %q, and the records ask for %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	return nil
}

var ledgerKeys = []oncekeeper.Key{testKey("1"), testKey("2"), testKey("3"), testKey("4"), testKey("5")}
