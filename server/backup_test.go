package server_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage"
)

// refusedBackup is a store whose backups fail with err.
type refusedBackup struct {
	storage.Store
	err error
}

func (s refusedBackup) Backup(context.Context, string) (storage.Backup, error) {
	return storage.Backup{}, s.err
}

func TestAFileSystemThatLacksACallIsNoStoreThatIsNotBackedUp(t *testing.T) {
	failed := fmt.Errorf("%w: backing up: %w", oncekeeper.ErrStoreUnavailable, syscall.ENOTSUP)
	h := operate(t, onPebble(t), func(cfg *server.Config) {
		cfg.Store, cfg.BackupDir = refusedBackup{cfg.Store, failed}, t.TempDir()
	})
	_, err := h.Backup(testContext(t), &pb.BackupRequest{Name: "monday"})
	if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "pg_dump") {
		t.Errorf("it says %v, want UNAVAILABLE, and nothing of other stores", err)
	}
}
