package pebble

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/lifecycle/lifecycletest"
	"github.com/oncekeeper/oncekeeper/storage"
)

// powerCuts is how many random histories are played; the power is cut before each
// of the operations that change the file system, some 150 in each.
const powerCuts = 6

// powerDir is some folders deep, none of which is there at first.
const powerDir = "a/b/d"

// TestThePowerMayBeCutAtEveryWrite plays random histories, of several callers at
// once, with sweeps, listings, flushes, compactions and restarts between. Before
// each operation that changes the file system it keeps what the disk would hold if
// the power failed there: once without anything that was not synced, once with a
// random part of it. Each of these is opened, and held against all that was
// answered until then.
func TestThePowerMayBeCutAtEveryWrite(t *testing.T) {
	cuts := 0
	lifecycletest.Check(t, powerCuts, func(t *rapid.T) {
		p := newPower(t, vfs.NewCrashableMem(), func(fs vfs.FS) vfs.FS { return fs })
		p.play(t)
		cuts += len(p.images)
		for _, i := range p.images {
			if fault := p.inspect(i); fault != nil {
				t.Fatalf("the power was cut before %s: %v", i.at, fault)
			}
		}
	})
	if t.Logf("%d cuts", cuts); cuts < powerCuts*100 {
		t.Errorf("the power was cut %d times, want at least %d", cuts, powerCuts*100)
	}
}

func TestAnAnswerBeforeItsSyncIsFoundByCuttingThePower(t *testing.T) {
	found := 0
	lifecycletest.Check(t, 3, func(t *rapid.T) {
		p := newPower(t, vfs.NewCrashableMem(), func(fs vfs.FS) vfs.FS { return forgetfulFS{fs} })
		p.play(t)
		for _, i := range p.images {
			if fault := p.inspect(i); fault != nil && strings.Contains(fault.Error(), "lost: ") {
				found++
				return
			}
		}
	})
	if found == 0 {
		t.Error("in a log that is never synced nothing acknowledged was lost: the cuts show nothing")
	}
}

// power is a history in the making, on a disk whose power may fail at any moment.
type power struct {
	ledger
	mem   *vfs.MemFS
	under func(vfs.FS) vfs.FS
	clock *clock.Manual
	store *Store

	mu     sync.Mutex
	random *rand.Rand
	off    bool
	images []image
	// removed are files whose removal was not synced.
	removed []string
}

// image is what the disk holds after a power cut, and what had been answered by
// then.
type image struct {
	at string
	fs *vfs.MemFS
	knowledge
}

func newPower(t *rapid.T, mem *vfs.MemFS, under func(vfs.FS) vfs.FS) *power {
	p := &power{
		mem: mem, under: under, clock: clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)),
		random: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "what unsynced is kept"), 0)),
		ledger: newLedger(),
	}
	p.open(t)
	return p
}

// open opens the store on a file system that keeps an image before each change.
func (p *power) open(t *rapid.T) {
	mem := p.mem
	fs := errorfs.Wrap(p.under(mem), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			p.keep(mem, op)
		}
		return nil
	}))
	s, err := Open(Config{Dir: powerDir, FS: fs, Clock: p.clock, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	p.store = s
}

// keep takes two images before op, unless mem is of a machine that is off.
func (p *power) keep(mem *vfs.MemFS, op errorfs.Op) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off || mem != p.mem {
		return
	}
	at := fmt.Sprintf("operation %d of kind %d, on %s", len(p.images)/2+1, op.Kind, op.Path)
	known := p.knows() // before the clone: what is answered meanwhile may be in it
	p.images = append(p.images,
		image{at, mem.CrashClone(vfs.CrashCloneCfg{}), known},
		image{at + ", and a part of what was not synced was kept", p.inPart(mem), known})
	switch {
	case op.Kind == errorfs.OpRemove:
		p.removed = append(p.removed, op.Path)
	case op.Kind == errorfs.OpFileSync && op.Path == powerDir:
		p.removed = nil
	}
}

// inPart gives mem with a random part of what was not synced, removals included.
func (p *power) inPart(mem *vfs.MemFS) *vfs.MemFS {
	percent := 1 + p.random.IntN(100)
	after := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: p.random})
	for _, name := range p.removed {
		if p.random.IntN(100) < percent {
			_ = after.Remove(name) // it may not be there anyhow
		}
	}
	return after
}

func (p *power) play(t *rapid.T) {
	for range rapid.IntRange(10, 20).Draw(t, "steps") {
		p.step(t)
	}
	p.close(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
}

func (p *power) step(t *rapid.T) {
	switch rapid.SampledFrom([]string{
		"calls", "calls", "calls", "calls", "calls", "wait", "sweep", "list", "flush", "compact", "backup", "restart", "cut",
	}).Draw(t, "step") {
	case "wait":
		p.clock.Advance(lifecycletest.DrawStep(t, p.now, p.ends()...))
	case "sweep":
		p.sweep(t)
	case "list":
		for _, order := range []storage.Order{storage.ByKey, storage.ByAge} {
			if _, err := p.store.List(t.Context(), storage.ListQuery{Order: order, Limit: 3}); err != nil {
				t.Fatalf("list: %v", err)
			}
		}
	case "flush":
		if err := p.store.db.Flush(); err != nil {
			t.Fatalf("flush: %v", err)
		}
	case "compact":
		if err := p.store.db.Compact(context.Background(), []byte{0}, []byte{0xff}, false); err != nil {
			t.Fatalf("compact: %v", err)
		}
	case "backup":
		p.backUp(t)
	case "restart":
		p.close(t)
		p.open(t)
	case "cut":
		p.cut(t)
	default:
		p.calls(t)
	}
}

func (p *power) close(t *rapid.T) {
	if err := p.store.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// cut has the machine fail with no call under way, and goes on with what its disk
// holds: so the power is cut in recoveries too.
func (p *power) cut(t *rapid.T) {
	p.mu.Lock()
	dead := p.store
	p.mem, p.removed = p.inPart(p.mem), nil
	p.mu.Unlock()
	if err := dead.Close(); err != nil {
		t.Fatalf("closing what is off: %v", err)
	}
	p.open(t)
}

// calls has several callers at once, each with some commands.
func (p *power) calls(t *rapid.T) {
	var all sync.WaitGroup
	for range rapid.IntRange(1, 4).Draw(t, "callers") {
		var cmds []lifecycle.Command
		for range rapid.IntRange(1, 3).Draw(t, "commands") {
			key := rapid.SampledFrom(ledgerKeys).Draw(t, "key")
			cmds = append(cmds, lifecycletest.DrawCommand(t, key, p.past(key)))
		}
		all.Go(func() {
			for i, res := range p.store.Apply(context.Background(), cmds...) {
				p.answered(cmds[i], res)
			}
		})
	}
	all.Wait()
	if p.fault != nil {
		t.Fatal(p.fault)
	}
}

// sweep deletes all that is gone, at a moment when nobody calls.
func (p *power) sweep(t *rapid.T) {
	got, err := p.store.Read(t.Context())
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	gone := p.sweeping(got.Now)
	swept, err := p.store.Sweep(t.Context(), storage.SweepQuery{Limit: 1000})
	if err != nil || swept.Records != int64(len(gone)) {
		t.Fatalf("swept %+v, %v; want %d records", swept, err, len(gone))
	}
	p.swept(gone)
}

// backUp copies the store, beside it.
func (p *power) backUp(t *rapid.T) {
	dir := p.backingUp()
	if _, err := p.store.Backup(t.Context(), dir); err != nil {
		t.Fatalf("backup: %v", err)
	}
	p.backedUp()
}

// forgetfulFS never syncs the log, and says that it did.
type forgetfulFS struct{ vfs.FS }

func (fs forgetfulFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, c)
	if err == nil && strings.HasSuffix(name, ".log") {
		f = forgetfulFile{f}
	}
	return f, err
}

func (fs forgetfulFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(from, to, c)
	return forgetfulFile{f}, err
}

type forgetfulFile struct{ vfs.File }

func (forgetfulFile) Sync() error                { return nil }
func (forgetfulFile) SyncData() error            { return nil }
func (forgetfulFile) SyncTo(int64) (bool, error) { return true, nil }
