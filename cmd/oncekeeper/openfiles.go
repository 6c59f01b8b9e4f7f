package main

import (
	"context"
	"log/slog"
)

// filesForStore are kept from connections: a store that cannot open its files fails.
const filesForStore = 2048

// boundConnections gives how many connections there may be where so many files may be
// open, each connection being one; 0 is for a number that nobody knows.
func boundConnections(ctx context.Context, most int, files uint64, log *slog.Logger) int {
	if files == 0 {
		return most
	}
	room := max(1, int(min(files, 1<<30))-filesForStore)
	if files < 2*filesForStore {
		room = max(1, int(files/2))
	}
	if most > room {
		log.WarnContext(ctx, "fewer connections are taken than --max-connections says: raise the limit of open files", "most", room, "files", files)
		return room
	}
	return most
}
