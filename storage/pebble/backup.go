package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncekeeper/oncekeeper/storage"
)

// unfinished ends the name of a backup that is not whole. Open refuses it.
const unfinished = ".unfinished"

// Backup implements storage.Backuper. Its files are links to the store's own where
// both are on one file system, so it takes little time and room at first.
func (s *Store) Backup(ctx context.Context, dir string) (storage.Backup, error) {
	if s.inMemory {
		return storage.Backup{}, fmt.Errorf("a store in memory: %w", errors.ErrUnsupported)
	}
	if checkFinished(dir) != nil || within(s.cfg.FS, s.cfg.Dir, dir) {
		return storage.Backup{}, fmt.Errorf("%s: %w", dir, fs.ErrInvalid)
	}
	select {
	case s.backingUp <- struct{}{}:
		defer func() { <-s.backingUp }()
	case <-ctx.Done():
		return storage.Backup{}, context.Cause(ctx)
	}
	s.scans.RLock()
	defer s.scans.RUnlock()
	for _, name := range []string{dir, dir + unfinished} {
		switch _, err := s.cfg.FS.Stat(name); {
		case err == nil:
			return storage.Backup{}, fmt.Errorf("%s: %w", name, fs.ErrExist)
		case !errors.Is(err, fs.ErrNotExist):
			return storage.Backup{}, s.unavailable("backing up", err)
		}
	}
	if err := s.checkRoom(s.roomToBegin()); err != nil {
		return storage.Backup{}, s.unavailable("backing up", err)
	}
	// Behind the committer: what it has answered is written.
	view, now, err := s.view(ctx)
	if err != nil {
		return storage.Backup{}, err
	}
	backup := storage.Backup{Begun: now}
	err = s.guarded(func() error {
		if err := view.Close(); err != nil {
			return err
		}
		err := s.copyTo(dir)
		if err == nil {
			backup.Bytes, err = s.bytesIn(dir)
		}
		return err
	})
	if err != nil {
		return storage.Backup{}, s.unavailable("backing up", errors.Join(err, s.cfg.FS.RemoveAll(dir+unfinished)))
	}
	return backup, nil
}

// copyTo gives the copy its name when every part of it is synced.
func (s *Store) copyTo(dir string) error {
	half := dir + unfinished
	if err := s.db.Checkpoint(half, pebble.WithFlushedWAL()); err != nil {
		return err
	}
	if s.beforeNaming != nil {
		s.beforeNaming()
	}
	if err := s.cfg.FS.Rename(half, dir); err != nil {
		return err
	}
	return syncDir(s.cfg.FS, s.cfg.FS.PathDir(dir))
}

func (s *Store) bytesIn(dir string) (sum int64, err error) {
	names, err := s.cfg.FS.List(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		info, err := s.cfg.FS.Stat(s.cfg.FS.PathJoin(dir, name))
		if err != nil {
			return 0, err
		}
		sum += info.Size()
	}
	return sum, nil
}

// within says whether dir lies in store. Pebble reads the names that are there: by one
// of its own a backup would be taken for a file of the store, which then does not open.
func within(fs vfs.FS, store, dir string) bool {
	for at := filepath.Clean(dir); ; at = fs.PathDir(at) {
		if at == filepath.Clean(store) {
			return true
		}
		if fs.PathDir(at) == at {
			return false
		}
	}
}

func checkFinished(dir string) error {
	if strings.HasSuffix(dir, unfinished) {
		return fmt.Errorf("%s is of a backup that was not finished, and may lack records: restore another", dir)
	}
	return nil
}
