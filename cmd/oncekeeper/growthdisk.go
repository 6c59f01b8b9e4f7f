package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oncekeeper/oncekeeper/internal/bench"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// measureDisks tells what embedded stores take of the disk: of each size where each
// has its own, else with the last. It ends the services.
func measureDisks(ctx context.Context, g *bench.Growth, services []*measured) error {
	from := len(g.Points) - len(services)
	for i, m := range services {
		if m.place.dir == "" {
			continue
		}
		disk, err := diskOf(ctx, m)
		if err != nil {
			return err
		}
		g.Points[from+i].Disk = &disk
	}
	return nil
}

func diskOf(ctx context.Context, m *measured) (bench.Disk, error) {
	size, err := directoryBytes(m.place.dir)
	if err != nil {
		return bench.Disk{}, err
	}
	if err := m.stop(); err != nil {
		return bench.Disk{}, err
	}
	store, err := pebble.Open(pebble.Config{Dir: m.place.dir})
	if err != nil {
		return bench.Disk{}, err
	}
	holds, err := store.Contents(ctx)
	return bench.Disk{Directory: size, Stored: holds.Bytes, Records: holds.Records}, errors.Join(err, store.Close())
}

// directoryBytes is the sum of the sizes of dir's files, of which some may go while
// they are looked at.
func directoryBytes(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return unlessGone(err)
		}
		info, err := d.Info()
		if err != nil {
			return unlessGone(err)
		}
		sum += info.Size()
		return nil
	})
	return sum, err
}

func unlessGone(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
