package main

import (
	"log/slog"
	"strings"
	"testing"
)

func TestConnectionsLeaveTheStoreItsFiles(t *testing.T) {
	for _, c := range []struct {
		most  int
		files uint64
		want  int
	}{
		{16384, 0, 16384}, {16384, 1 << 20, 16384}, {16384, 18432, 16384}, {16384, 20000 - 2048, 15904}, {16384, 1024, 512}, {100, 1024, 100}, {5, 1, 1},
		{16384, ^uint64(0), 16384},
	} {
		log := &lines{grown: make(chan struct{}, 1)}
		got := boundConnections(t.Context(), c.most, c.files, slog.New(slog.NewJSONHandler(log, nil)))
		if said := strings.Contains(log.String(), "raise the limit of open files"); got != c.want || said != (got < c.most) {
			t.Errorf("of %d, where %d files may be open, %d are taken and it says %q; want %d", c.most, c.files, got, log, c.want)
		}
	}
	if openFiles() == 1 {
		t.Error("one file may be open")
	}
	if code, _, stderr := command(t, "serve", "--max-connections", "0"); code != exitUsage || !strings.Contains(stderr, "nobody could call") {
		t.Errorf("for none at all it exits with %d: %s", code, stderr)
	}
}
