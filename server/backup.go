package server

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/storage"
)

// backupName is one element of a path, and no hidden one: with no other a caller
// cannot leave the place for backups.
var backupName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$`)

// What a server that cannot back up says.
var (
	errNoBackupDir = &unfit{"this server has no place for backups: start it with --backup-dir DIR"}
	errNoBackups   = &unfit{"this server does not back up its store: a Postgres has pg_dump and continuous archiving, and what lies in memory is kept nowhere"}
)

func (s admin) Backup(ctx context.Context, req *pb.BackupRequest) (*pb.BackupResponse, error) {
	var f fields
	if !backupName.MatchString(req.GetName()) {
		f.refuse("name", "is not 1 to 100 letters, digits, hyphens, underscores and full stops, no full stop first")
	}
	if err := f.err(); err != nil {
		return nil, s.statusOf(ctx, err, "")
	}
	store, can := s.store.Store.(storage.Backuper)
	switch {
	case !can:
		return nil, s.statusOf(ctx, errNoBackups, "")
	case s.backupDir == "":
		return nil, s.statusOf(ctx, errNoBackupDir, "")
	}
	dir := filepath.Join(s.backupDir, req.GetName())
	made, err := store.Backup(ctx, dir)
	switch {
	case errors.Is(err, oncekeeper.ErrStoreUnavailable): // whatever the file system said
	case errors.Is(err, errors.ErrUnsupported):
		err = errNoBackups
	case errors.Is(err, fs.ErrExist):
		f.refuse("name", "is one that is there already, or that an unfinished backup left: give another, or remove it")
		err = f.err()
	case errors.Is(err, fs.ErrInvalid):
		f.refuse("name", "is one of unfinished backups, or would lie in the store's own directory: give another, or the server another --backup-dir")
		err = f.err()
	}
	if err != nil {
		return nil, s.statusOf(ctx, err, "")
	}
	s.log.InfoContext(ctx, "an operator backed up the store", "directory", dir, "bytes", made.Bytes)
	return &pb.BackupResponse{Directory: dir, BeginTime: wire.InstantToProto(made.Begun), SizeBytes: made.Bytes}, nil
}
