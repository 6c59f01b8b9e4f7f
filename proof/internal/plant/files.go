package plant

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// syncAfter is how late the log of an embedded store is written.
const syncAfter = 30 * time.Millisecond

// Files gives the file system of an embedded store that leaves rule out; nil for the
// machine's own. Its log is written late, and a sync does not wait for that: what a
// killed process had not written yet is lost, as a power cut takes what was not synced.
func Files(rule string) vfs.FS {
	if rule == AckSynced || rule == ReadSynced {
		return lateFS{vfs.Default}
	}
	return nil
}

type lateFS struct{ vfs.FS }

func (fs lateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	return fs.late(name, f, err)
}

func (fs lateFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(oldname, newname, category)
	return fs.late(newname, f, err)
}

func (fs lateFS) late(name string, f vfs.File, err error) (vfs.File, error) {
	if base := fs.PathBase(name); err != nil || len(base) < 4 || base[len(base)-4:] != ".log" {
		return f, err
	}
	return &lateFile{File: f}, nil
}

// lateFile writes what it is given some time later.
type lateFile struct {
	vfs.File

	mu   sync.Mutex
	held []byte
}

func (f *lateFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.held) == 0 {
		time.AfterFunc(syncAfter, func() { _ = f.flush() })
	}
	f.held = append(f.held, p...)
	return len(p), nil
}

func (f *lateFile) flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.held) == 0 {
		return nil
	}
	_, err := f.File.Write(f.held)
	f.held = f.held[:0]
	return err
}

func (f *lateFile) Sync() error     { return nil }
func (f *lateFile) SyncData() error { return nil }

func (f *lateFile) SyncTo(int64) (bool, error) { return false, nil }

func (f *lateFile) Close() error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Close()
}
