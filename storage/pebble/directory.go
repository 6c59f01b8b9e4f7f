package pebble

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncekeeper/oncekeeper"
)

// prepareDir makes the directory and tells early, and clearly, why it will not
// do.
func (s *Store) prepareDir() error {
	if err := checkFinished(s.cfg.Dir); err != nil {
		return err
	}
	if err := makeDir(s.cfg.FS, s.cfg.Dir); err != nil {
		return fmt.Errorf("making data directory %s: %w", s.cfg.Dir, err)
	}
	if err := s.checkRoom(s.cfg.MinFreeBytes); err != nil {
		return fmt.Errorf("data directory %s: %w", s.cfg.Dir, err)
	}
	return nil
}

// privateFS makes directories that nobody but their owner enters, as the data
// directory is: Pebble would have everybody read what a backup holds.
type privateFS struct{ vfs.FS }

func (fs privateFS) MkdirAll(dir string, _ os.FileMode) error { return fs.FS.MkdirAll(dir, 0o700) }

// Unwrap implements vfs.FS.
func (fs privateFS) Unwrap() vfs.FS { return fs.FS }

func lockError(dir string, err error) error {
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("data directory %s cannot be written: %w", dir, err)
	}
	return fmt.Errorf("data directory %s is in use by another oncekeeper: stop it, or give this one a directory of its own: %w", dir, err)
}

// Writes are refused while the disk is nearly full, before Pebble meets the full
// disk itself, which would end the process. What ends an attempt is let nearer to
// the end than what begins one, and what makes room nearest.
func (s *Store) roomToBegin() uint64  { return s.cfg.MinFreeBytes }
func (s *Store) roomToSettle() uint64 { return s.cfg.MinFreeBytes / 2 }
func (s *Store) roomToSweep() uint64  { return s.cfg.MinFreeBytes / 4 }

// checkRoom gives an error where less than need is free.
func (s *Store) checkRoom(need uint64) error {
	free, err := s.freeBytes()
	if err != nil {
		return err
	}
	return enoughRoom(free, need)
}

// freeBytes is all there could be where the file system cannot tell.
func (s *Store) freeBytes() (uint64, error) {
	usage, err := s.cfg.FS.GetDiskUsage(s.cfg.Dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return ^uint64(0), nil
	}
	if err != nil {
		return 0, fmt.Errorf("asking how full the disk is: %w", err)
	}
	return usage.AvailBytes, nil
}

func enoughRoom(free, need uint64) error {
	if free < need {
		return fmt.Errorf("the disk is full: %d MiB are free and %d MiB must be: make room", free>>20, need>>20)
	}
	return nil
}

// unavailable wraps a fault that decided nothing.
func (s *Store) unavailable(doing string, err error) error {
	return fmt.Errorf("%w: %s in %s: %w", oncekeeper.ErrStoreUnavailable, doing, s.cfg.Dir, err)
}
