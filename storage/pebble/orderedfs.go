package pebble

import (
	"errors"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// orderedFS keeps names in their order where a file system does not. Pebble says
// by a marker file's name which manifest is the current one: it makes the
// manifest, makes the new marker, removes the old one, and then syncs the
// directory. A file system may write these names in any order, and after a power
// cut there would be a marker of a manifest that is not there, and the store would
// not open; or no marker, and it would open empty. So what came before is synced
// first. It costs two syncs of a directory for each new manifest.
//
// Pebble does the first of both by itself in versions after 2.1.7.
type orderedFS struct{ vfs.FS }

const markerPrefix = "marker."

func (fs orderedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := fs.syncBeforeMarker(name); err != nil {
		return nil, err
	}
	return fs.FS.Create(name, c)
}

func (fs orderedFS) Remove(name string) error {
	if err := fs.syncBeforeMarker(name); err != nil {
		return err
	}
	return fs.FS.Remove(name)
}

func (fs orderedFS) syncBeforeMarker(name string) error {
	if !strings.HasPrefix(fs.PathBase(name), markerPrefix) {
		return nil
	}
	return syncDir(fs.FS, fs.PathDir(name))
}

// Unwrap implements vfs.FS.
func (fs orderedFS) Unwrap() vfs.FS { return fs.FS }

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// makeDir makes dir and whatever it is in, so that none of it is lost to a power
// cut.
func makeDir(fs vfs.FS, dir string) error {
	var made []string
	for at := dir; ; at = fs.PathDir(at) {
		if _, err := fs.Stat(at); !errors.Is(err, os.ErrNotExist) {
			break
		}
		made = append(made, at)
		if fs.PathDir(at) == at {
			break
		}
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range made {
		if err := syncDir(fs, fs.PathDir(d)); err != nil {
			return err
		}
	}
	return nil
}
