package sweeping

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// records lie in a place of their own, completed and expired two days ago or more.
type records struct {
	// open gives a store on them. Its caller closes it.
	open func() storage.Store
	// many stores may be open at once.
	many bool
	// bytes gives what they take on disk.
	bytes func() int64
	// sizes tells what becomes of the disk behind a sweep, in words and MiB.
	sizes func() string
}

type kind struct {
	name string
	lay  func(t testing.TB, n int) records
}

var kinds = []kind{{"pebble", onPebble}, {"postgres", onPostgres}}

func onEachStore(t *testing.T, test func(t *testing.T, lay func(t testing.TB, n int) records)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { test(t, k.lay) })
	}
}

const ago = 3 * 24 * time.Hour

func onPebble(t testing.TB, n int) records {
	dir := t.TempDir()
	open := func(clk clock.Clock) storage.Store {
		store, err := pebble.Open(pebble.Config{Dir: dir, Clock: clk})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	then := clock.NewManual(time.Now().Add(-ago))
	store := open(then)
	for at := 0; at < n; at += 500 {
		then.Advance(time.Millisecond)
		completed(t, store, at, min(n, at+500))
	}
	mustClose(t, store)
	size := func() int64 { return directoryBytes(t, dir) }
	return records{open: func() storage.Store { return open(clock.System) }, bytes: size, sizes: func() string {
		return fmt.Sprintf("%d once compactions came to rest", settled(size)>>20)
	}}
}

// directoryBytes passes over files that go meanwhile.
func directoryBytes(t testing.TB, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// settled gives a size that no longer changes, or what it is after a minute.
func settled(size func() int64) int64 {
	last := size()
	for range 20 {
		time.Sleep(3 * time.Second)
		next := size()
		if next == last {
			break
		}
		last = next
	}
	return last
}

// onPostgres has a server of its own, which syncs and vacuums as one in use does.
func onPostgres(t testing.TB, n int) records {
	dsn := pgtest.Start(t, "shared_buffers=256MB", "max_wal_size=4GB").Database(t)
	open := func() storage.Store {
		store, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	store := open()
	completed(t, store, 0, 1)
	mustClose(t, store)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	// As dense as rows lie that were begun and then settled.
	exec(`ALTER TABLE oncekeeper_records SET (fillfactor = 60)`)
	exec(copySQL, int64(n), ago.Microseconds())
	exec(`DELETE FROM oncekeeper_records WHERE id = $1`, idOf(0))
	exec(`ALTER TABLE oncekeeper_records SET (fillfactor = 30)`)
	exec(`VACUUM ANALYZE oncekeeper_records`)
	size := func() (bytes int64) {
		if err := conn.QueryRow(t.Context(), `SELECT pg_total_relation_size('oncekeeper_records')`).Scan(&bytes); err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	return records{open: open, many: true, bytes: size, sizes: func() string {
		exec(`VACUUM oncekeeper_records`)
		kept := size()
		exec(`VACUUM FULL oncekeeper_records`)
		return fmt.Sprintf("%d behind a VACUUM, free for new records, %d behind a VACUUM FULL", kept>>20, size()>>20)
	}}
}

// copySQL makes of the one record there is n, begun one after the other.
const copySQL = `
INSERT INTO oncekeeper_records SELECT
	tenant, operation, md5(i::text), token, revision, created - back, lease_end - back, unsettled_until - back, expires - back, settled - back,
	sweep_at - back, lease, retention, state, last, takeover, hold, granted, outcome
FROM oncekeeper_records, generate_series(1, $1::bigint) AS i, LATERAL (SELECT $2 - 10 * i AS back) AS b`

func idOf(i int) string { return fmt.Sprintf("%016x", uint64(i+1)*0x9e3779b97f4a7c15) }

// completed begins and completes keys, whose order is not that of their numbers.
func completed(t testing.TB, store storage.Store, from, to int) {
	t.Helper()
	cmds := make([]lifecycle.Command, to-from)
	for i := range cmds {
		cmds[i] = lifecycle.Begin{
			Key: oncekeeper.Key{Tenant: "shop", Operation: "pay", ID: idOf(from + i)}, Fingerprint: make([]byte, 32), FingerprintScheme: "pb1",
			Grant: oncekeeper.Grant{Lease: time.Minute, Retention: time.Hour, UnsettledRetention: 30 * 24 * time.Hour},
		}
	}
	for i, res := range store.Apply(t.Context(), cmds...) {
		if res.Refusal() != nil {
			t.Fatal(res.Refusal())
		}
		cmds[i] = lifecycle.Settle{
			Key: res.Record.Key, Token: res.Record.Token, As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{Body: body()},
		}
	}
	for _, res := range store.Apply(t.Context(), cmds...) {
		if res.Refusal() != nil {
			t.Fatal(res.Refusal())
		}
	}
}

// body is one that nothing makes smaller.
func body() []byte {
	body := make([]byte, 256)
	for i := range body {
		body[i] = byte(rand.Uint32())
	}
	return body
}

func mustClose(t testing.TB, store storage.Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}
