// Package pebble keeps records in one directory, for one process, on
// CockroachDB's Pebble; or in memory, by the same code, for tests.
//
// Everything goes through one committer: it takes all the calls that wait,
// judges them by lifecycle, and commits what changed as one synced batch, while
// the next calls queue. A lone call waits for nobody and a thousand share one
// sync. Since nothing is read but by the committer, between its batches, no
// answer rests on what is not yet durable.
package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/storage"
)

// formatVersion is of the key spaces and the record encoding.
const formatVersion = "1"

// Config is how a store is opened. The zero value of a field is its default.
type Config struct {
	// Dir is the data directory; it is made where missing, and held by one
	// process at a time. Empty: in memory, gone at Close.
	Dir string
	// FS is what Dir is in; default: the machine's.
	FS vfs.FS
	// Clock is the host's clock. Default: clock.System.
	Clock clock.Clock
	// Logger for what Pebble says. Default: nothing is logged.
	Logger *slog.Logger
	// CacheBytes for blocks read from disk. Default: 80 MiB, which holds the filters and the
	// index of ten million records, some 40 MiB, and what is read again of the rest.
	CacheBytes int64
	// MinFreeBytes of disk, below which nothing is written: calls get
	// ErrStoreUnavailable until there is room again. Default: 128 MiB, so that
	// Pebble's own flushes and compactions, which end the process where they find
	// no room, still do.
	MinFreeBytes uint64
	// OnFatal is called once, from a goroutine of its own, when a write failed, or
	// a file is damaged, and what is on disk is no longer known. The store answers
	// ErrStoreUnavailable from then on; only a process that opens it anew can tell.
	// A process that serves it ends.
	OnFatal func(error)
}

// Store is a storage.Store.
type Store struct {
	cfg    Config
	db     *pebble.DB
	engine engineLogger
	clock  storeClock
	queue  queue
	done   chan struct{} // the committer has ended
	swept  sweptTo
	// held and scratch are the committer's alone.
	held    heldRecords
	scratch []byte

	// beforeDelete is a test's: between a sweep's choice and its delete.
	beforeDelete func()

	// beforeNaming is a test's: between a backup's copy and its name.
	beforeNaming func()
	inMemory     bool
	backingUp    chan struct{} // holds one while a backup is made

	counters counters

	failure  atomic.Pointer[failure]
	closing  sync.Once
	closeErr error
	// scans holds Close back while a List, a Sweep, a Backup or Stats reads, and guards
	// closed.
	scans  sync.RWMutex
	closed bool
}

var (
	_ storage.Store    = (*Store)(nil)
	_ storage.Backuper = (*Store)(nil)
)

type failure struct{ err error }

// Open opens or makes the store. Its error names the directory and what to do:
// another process has it, a newer version wrote it, it cannot be written, the
// disk is full.
func Open(cfg Config) (*Store, error) {
	inMemory := cfg.Dir == ""
	cfg = withDefaults(cfg)
	s := &Store{cfg: cfg, done: make(chan struct{}), inMemory: inMemory, backingUp: make(chan struct{}, 1), counters: newCounters()}
	s.engine.log, s.engine.fail = cfg.Logger, s.fail
	if err := s.prepareDir(); err != nil {
		return nil, err
	}
	lock, err := pebble.LockDirectory(cfg.Dir, cfg.FS)
	if err != nil {
		return nil, lockError(cfg.Dir, err)
	}
	err = s.guarded(func() (err error) {
		s.db, err = pebble.Open(cfg.Dir, s.options(lock))
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening data directory %s: %w", cfg.Dir, err), lock.Close())
	}
	// The lock's own reference; the open database keeps one until it is closed.
	if err := lock.Close(); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	var last oncekeeper.Instant
	err = s.guarded(func() (err error) {
		last, err = s.readMeta()
		return err
	})
	if err != nil {
		return nil, errors.Join(err, s.closeDB())
	}
	s.clock = newStoreClock(cfg.Clock, last)
	s.queue.init(clock.System)
	go s.commitLoop()
	return s, nil
}

func withDefaults(cfg Config) Config {
	if cfg.Dir == "" {
		cfg.Dir, cfg.FS = "memory", vfs.NewMem()
	}
	if cfg.FS == nil {
		cfg.FS = vfs.Default
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = 80 << 20
	}
	if cfg.MinFreeBytes == 0 {
		cfg.MinFreeBytes = 128 << 20
	}
	return cfg
}

// memTableBytes is how much is gathered in memory, and in the log, before it goes
// into a file: of a pair within it the file has one record and no more, and none of
// the entry that the attempt had in an index.
const memTableBytes = 32 << 20

// blockBytes is what is read at a time. A record takes some half a KiB, so Pebble's
// own 4 KiB would be an index of one entry for seven records: of ten million of them it
// takes about 100 MiB, and does not stay in memory beside the filters. Of these it takes
// a quarter.
const blockBytes = 16 << 10

func (s *Store) options(lock *pebble.Lock) *pebble.Options {
	opts := &pebble.Options{
		FS:   orderedFS{privateFS{s.cfg.FS}},
		Lock: lock,
		// Pebble takes the memory of tables out of the cache's (one that is written, one
		// that is on its way into a file, one to be used again), and would leave a quarter
		// of it for blocks.
		CacheSize:          s.cfg.CacheBytes + 3*memTableBytes,
		MemTableSize:       memTableBytes,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             &s.engine,
		EventListener:      &pebble.EventListener{DataCorruption: s.damaged},
	}
	for i := range opts.Levels {
		// A fresh Begin looks for a record that is not there.
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		opts.Levels[i].BlockSize = blockBytes
	}
	return opts
}

// readMeta checks the format, or writes it into a new store, and gives the last
// moment written.
func (s *Store) readMeta() (oncekeeper.Instant, error) {
	format, ok, err := s.getRaw(metaFormat)
	switch {
	case err != nil:
		return 0, fmt.Errorf("reading the format of %s: %w", s.cfg.Dir, err)
	case !ok:
		if err := s.db.Set(metaFormat, []byte(formatVersion), pebble.Sync); err != nil {
			return 0, fmt.Errorf("writing the format of %s: %w", s.cfg.Dir, err)
		}
		return 0, nil
	case string(format) != formatVersion:
		return 0, fmt.Errorf("data directory %s has format %q and this version knows %q: run the version that wrote it", s.cfg.Dir, format, formatVersion)
	}
	last, ok, err := s.getRaw(metaClock)
	if err != nil || !ok {
		return 0, err
	}
	if len(last) != 8 {
		return 0, fmt.Errorf("data directory %s: the last moment written is damaged: restore a backup", s.cfg.Dir)
	}
	return oncekeeper.Instant(binary.BigEndian.Uint64(last)), nil
}

func (s *Store) getRaw(key []byte) (value []byte, ok bool, err error) {
	got, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	value = append([]byte(nil), got...)
	return value, true, closer.Close()
}

// Shared implements storage.Store: one process has the directory.
func (s *Store) Shared() bool { return false }

// Ping implements storage.Store.
func (s *Store) Ping(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t := &pingTask{store: s}
	if err := s.do(t); err != nil {
		return err
	}
	return t.err
}

// Close implements storage.Store.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.queue.close()
		<-s.done
		s.scans.Lock()
		defer s.scans.Unlock()
		s.closed = true
		s.closeErr = s.closeDB()
	})
	return s.closeErr
}

// closeDB leaves a database that failed as it is, and gives why it failed.
func (s *Store) closeDB() error {
	if f := s.failure.Load(); f != nil {
		return f.err
	}
	return s.guarded(s.db.Close)
}
