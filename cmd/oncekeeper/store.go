package main

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// checkStore refuses a URL that openStore does not know.
func checkStore(url string) error {
	kind, rest, _ := strings.Cut(url, ":")
	if url == "memory:" || kind == "pebble" && rest != "" {
		return nil
	}
	// The URL is not repeated: it may hold a password.
	return fmt.Errorf("--store of kind %q is not known: give pebble:DIR or memory:", kind)
}

// openStore opens the store that url names, which checkStore took, and says in
// words where it is.
func openStore(url string, log *slog.Logger, onFatal func(error)) (store storage.Store, where string, err error) {
	cfg := pebble.Config{Logger: log, OnFatal: onFatal}
	where = "memory, and are gone at the end"
	if dir, ok := strings.CutPrefix(url, "pebble:"); ok {
		if cfg.Dir, err = filepath.Abs(dir); err != nil {
			return nil, "", err
		}
		where = cfg.Dir
	}
	store, err = pebble.Open(cfg)
	return store, where, err
}
