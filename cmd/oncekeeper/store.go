package main

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// openStore opens the store that url names, and says in words where it is.
func openStore(url string, log *slog.Logger, onFatal func(error)) (store storage.Store, where string, err error) {
	kind, rest, _ := strings.Cut(url, ":")
	cfg := pebble.Config{Logger: log, OnFatal: onFatal}
	switch {
	case url == "memory:":
		where = "memory, and are gone at the end"
	case kind == "pebble" && rest != "":
		if cfg.Dir, err = filepath.Abs(rest); err != nil {
			return nil, "", err
		}
		where = cfg.Dir
	default:
		// The URL is not repeated: it may hold a password.
		return nil, "", fmt.Errorf("--store of kind %q is not known: give pebble:DIR or memory:", kind)
	}
	store, err = pebble.Open(cfg)
	return store, where, err
}
