package storage

import (
	"context"

	"github.com/oncekeeper/oncekeeper"
)

// Backuper is a Store that copies itself while it serves. A store that others back
// up is none.
type Backuper interface {
	// Backup copies the store to dir, which must not exist, on the same host; what is
	// in dir opens as the store. All that was answered before Backup was called is in
	// it. Until it is whole it has another name, under which nothing opens it: neither
	// a fault nor the process's end leaves half a backup that looks like one.
	//
	// ctx's end does not stop it once it has begun.
	// Errors: errors.ErrUnsupported where nothing is kept to be copied; fs.ErrExist;
	// fs.ErrInvalid for a name that it gives to what is not whole, and for a place among
	// the store's own files; ErrStoreUnavailable where it failed, and what dir then is, if
	// anything, is whole; ctx's cause.
	Backup(ctx context.Context, dir string) (Backup, error)
}

// Backup is what a Backuper made.
type Backup struct {
	// Begun is the store's clock as it began.
	Begun oncekeeper.Instant
	// Bytes of its files. They may share room on the disk with the store's own.
	Bytes int64
}
