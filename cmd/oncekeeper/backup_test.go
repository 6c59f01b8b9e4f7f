package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

func TestABackupIsServedAsAnyStoreIs(t *testing.T) {
	root := t.TempDir()
	backups := filepath.Join(root, "backups")
	address, log := serving(t, "--store", "pebble:"+filepath.Join(root, "data"), "--backup-dir", backups)
	keeper := dialled(t, address)
	key := &pb.Key{Tenant: "demo", Operation: "pay", Id: "1"}
	begun, err := keeper.Begin(t.Context(), &pb.BeginRequest{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	_, err = keeper.Complete(t.Context(), &pb.CompleteRequest{
		Key: key, FencingToken: begun.GetGrant().GetFencingToken(), Response: &pb.StoredResponse{Body: []byte("paid")},
	})
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := command(t, "backup", "monday", "--address", address)
	if code != 0 || !strings.Contains(stdout, filepath.Join(backups, "monday")) {
		t.Fatalf("backup exits with %d: %s%s", code, stdout, stderr)
	}
	log.await(t, "an operator backed up the store")
	code, stdout, stderr = command(t, "backup", "tuesday", "--json", "--address", address)
	var made struct{ Directory, BeginTime, SizeBytes string }
	if err := json.Unmarshal([]byte(stdout), &made); err != nil || code != 0 || made.SizeBytes == "" || made.BeginTime == "" {
		t.Fatalf("backup --json exits with %d: %s%s", code, stdout, stderr)
	}
	for name, want := range map[string]string{
		"monday": "name: is one that is there already", "..": "name: is not 1 to 100", "../x": "name: is not", "a/b": "name: is not",
		".hidden": "name: is not", "x.unfinished": "give another", strings.Repeat("x", 101): "name: is not",
	} {
		if code, _, stderr := command(t, "backup", name, "--address", address); code != exitFailed || !strings.Contains(stderr, want) {
			t.Errorf("backup %s exits with %d and says %q, want %q", name, code, stderr, want)
		}
	}
	if err := os.Symlink(filepath.Join(root, "outside"), filepath.Join(backups, "link")); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := command(t, "backup", "link", "--address", address); code == 0 {
		t.Error("a backup followed a link")
	}
	if _, err := os.Stat(filepath.Join(root, "outside")); !os.IsNotExist(err) {
		t.Errorf("something was made where a link points: %v", err)
	}

	restored, _ := serving(t, "--store", "pebble:"+made.Directory)
	if code, stdout, stderr := command(t, "get", "demo", "pay", "1", "--address", restored); code != 0 || !strings.Contains(stdout, "4 bytes: paid") {
		t.Errorf("the restored store shows (exit %d) %s%s", code, stdout, stderr)
	}
}

func TestABackupThatCannotBeSaysWhatToDo(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"in store": {[]string{"--store", "pebble:" + data, "--backup-dir", data}, "another --backup-dir"},
		"no place": {[]string{"--store", "pebble:" + t.TempDir()}, "--backup-dir DIR"},
		"memory":   {[]string{"--store", "memory:", "--backup-dir", dir}, "kept nowhere"},
		"postgres": {[]string{"--store", pgtest.Database(t), "--backup-dir", dir}, "pg_dump"},
	} {
		t.Run(name, func(t *testing.T) {
			address, _ := serving(t, c.args...)
			if code, _, stderr := command(t, "backup", "monday", "--address", address); code != exitFailed || !strings.Contains(stderr, c.want) {
				t.Errorf("it exits with %d and says %q, want %q", code, stderr, c.want)
			}
		})
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
		t.Errorf("refused backups made %v (%v)", made, err)
	}
}

func TestABackupWhoseAnswerIsLostIsSaidToGoOn(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for what, address := range map[string]string{"no answer in time": silent.Addr().String(), "no connection": "127.0.0.1:1"} {
		code, _, stderr := command(t, "backup", "monday", "--timeout", "200ms", "--address", address)
		if code != exitFailed || !strings.Contains(stderr, "a backup that was begun goes on") {
			t.Errorf("%s: it exits with %d and says %q, and not that a backup may go on", what, code, stderr)
		}
	}
}
