package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/oncekeeper/oncekeeper/migrations"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
)

// storeFlags say where records lie.
type storeFlags struct {
	Store string `env:"ONCEKEEPER_STORE" default:"pebble:./oncekeeper-data" help:"Where records lie: pebble:DIR, one directory for one process; postgres://USER@HOST/DATABASE, which servers may share (give a password in the environment, not here); memory:, gone at the end."`
}

// startTimeout bounds what is asked of a database before it serves: a wrong
// address must end the process, not hang it.
const startTimeout = 10 * time.Second

// check refuses a store that open does not know.
func (f *storeFlags) check() error {
	kind, rest, _ := strings.Cut(f.Store, ":")
	if f.Store == "memory:" || kind == "pebble" && rest != "" || f.isPostgres() {
		return nil
	}
	return f.unknown("pebble:DIR, postgres://USER@HOST/DATABASE or memory:")
}

// unknown repeats no more than a word before a colon: an address may hold a
// password, and one of key=value words may have no colon but in it.
func (f *storeFlags) unknown(want string) error {
	kind, _, is := strings.Cut(f.Store, ":")
	if strange := func(r rune) bool { return r < 'a' || r > 'z' }; !is || strings.ContainsFunc(kind, strange) {
		return fmt.Errorf("--store is of no kind that is known here: give %s", want)
	}
	return fmt.Errorf("--store of kind %q is not known here: give %s", kind, want)
}

func (f *storeFlags) isPostgres() bool {
	return strings.HasPrefix(f.Store, "postgres://") || strings.HasPrefix(f.Store, "postgresql://")
}

// open opens the store, which check took, and says in words where it is.
func (f *storeFlags) open(ctx context.Context, log *slog.Logger, plan postgres.Plan, migrate bool, onFatal func(error)) (store storage.Store, where string, err error) {
	if f.isPostgres() {
		return f.openPostgres(ctx, log, plan, migrate)
	}
	cfg := pebble.Config{Logger: log, OnFatal: onFatal}
	where = "memory, and are gone at the end"
	if dir, ok := strings.CutPrefix(f.Store, "pebble:"); ok {
		if cfg.Dir, err = filepath.Abs(dir); err != nil {
			return nil, "", err
		}
		where = cfg.Dir
	}
	store, err = pebble.Open(cfg)
	return store, where, err
}

func (f *storeFlags) openPostgres(ctx context.Context, log *slog.Logger, plan postgres.Plan, migrate bool) (storage.Store, string, error) {
	cfg := postgres.Config{DSN: f.Store, Plan: plan, Logger: log}
	if migrate {
		taken, err := postgres.Migrate(ctx, cfg)
		if err != nil {
			return nil, "", err
		}
		for _, step := range taken {
			log.InfoContext(ctx, "migrated", "step", step.Name)
		}
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	store, err := postgres.Open(starting, cfg)
	if errors.Is(err, migrations.ErrOldSchema) {
		err = fmt.Errorf("%w, or serve with --migrate", err)
	}
	if err != nil {
		return nil, "", err
	}
	taken, why := store.Plan()
	log.InfoContext(ctx, "statements go by plan "+string(taken), "because", why)
	return store, f.describe(), nil
}

// describe says which database it is, with nothing that could be a secret.
func (f *storeFlags) describe() string {
	u, err := url.Parse(f.Store)
	if err != nil {
		return "Postgres"
	}
	host := u.Host
	if host == "" {
		host = u.Query().Get("host")
	}
	return fmt.Sprintf("Postgres at %s, database %s", host, strings.TrimPrefix(u.Path, "/"))
}
