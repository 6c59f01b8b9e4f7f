package pebble

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncekeeper/oncekeeper"
)

// prepareDir makes the directory and tells early, and clearly, why it will not
// do.
func (s *Store) prepareDir() error {
	if err := s.cfg.FS.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("making data directory %s: %w", s.cfg.Dir, err)
	}
	if err := s.checkRoom(); err != nil {
		return fmt.Errorf("data directory %s: %w", s.cfg.Dir, err)
	}
	return nil
}

func lockError(dir string, err error) error {
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("data directory %s cannot be written: %w", dir, err)
	}
	return fmt.Errorf("data directory %s is in use by another oncekeeper: stop it, or give this one a directory of its own: %w", dir, err)
}

// hasRoom refuses a write while the disk is nearly full, before Pebble meets the
// full disk itself, which would end the process.
func (s *Store) hasRoom() error {
	if err := s.checkRoom(); err != nil {
		return fmt.Errorf("%w: %w", oncekeeper.ErrStoreUnavailable, err)
	}
	return nil
}

func (s *Store) checkRoom() error {
	usage, err := s.cfg.FS.GetDiskUsage(s.cfg.Dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("asking how full the disk is: %w", err)
	}
	if usage.AvailBytes < s.cfg.MinFreeBytes {
		return fmt.Errorf("the disk is full: %d MiB are free and %d MiB must be: make room", usage.AvailBytes>>20, s.cfg.MinFreeBytes>>20)
	}
	return nil
}

// applySynced commits b and returns once it is on disk. Any error is the store's
// end: what is on disk is no longer known.
func (s *Store) applySynced(b *pebble.Batch) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = s.fail(fmt.Errorf("%v", fault))
		}
	}()
	s.engine.committing.Store(true)
	defer s.engine.committing.Store(false)
	if err := s.db.Apply(b, pebble.Sync); err != nil {
		return s.fail(err)
	}
	return nil
}

// fail ends the store: from now on every call is refused. It gives what callers
// get.
func (s *Store) fail(cause error) error {
	f := &failure{err: fmt.Errorf("%w: a write failed, and what is on disk is not known until the store is opened anew: %w",
		oncekeeper.ErrStoreUnavailable, cause)}
	if !s.failure.CompareAndSwap(nil, f) {
		return s.failure.Load().err
	}
	s.cfg.Logger.Error("the embedded store ends: a write failed", "dir", s.cfg.Dir, "error", cause)
	if s.cfg.OnFatal != nil {
		go s.cfg.OnFatal(f.err)
	}
	return f.err
}

// engineLogger is Pebble's logger. Pebble expects Fatalf not to return.
type engineLogger struct {
	log  *slog.Logger
	fail func(error) error
	// committing: the committer is in Apply, and recovers.
	committing atomic.Bool
}

func (l *engineLogger) Infof(format string, args ...any) {
	l.log.Debug("pebble", "said", fmt.Sprintf(format, args...))
}

func (l *engineLogger) Errorf(format string, args ...any) {
	l.log.Warn("pebble", "said", fmt.Sprintf(format, args...))
}

func (l *engineLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	_ = l.fail(err)
	if l.committing.Load() {
		panic(err)
	}
	// A goroutine of Pebble's: it must not go on, and holds what it holds until
	// the process ends.
	select {}
}
