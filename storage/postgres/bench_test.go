package postgres

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// BenchmarkPair is a Begin and its Complete with a response of 256 bytes, synced:
// by the store, and by plain pgx, which sends the same two statements for each
// call, on as many connections as serve it best here. Each runs on a database of
// its own on one server, one behind the other, so that one run compares them.
func BenchmarkPair(b *testing.B) {
	server := os.Getenv("ONCEKEEPER_TEST_POSTGRES")
	database := func(b *testing.B) string { return pgtest.Database(b) }
	if server == "" {
		own := pgtest.Start(b, "shared_buffers=256MB")
		database = func(b *testing.B) string { return own.Database(b) }
	}
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("plain/callers=%d", callers), func(b *testing.B) {
			pairs(b, callers, plain(b, database(b), callers))
		})
		b.Run(fmt.Sprintf("store/callers=%d", callers), func(b *testing.B) {
			s := mustOpen(b, Config{DSN: database(b)})
			pairs(b, callers, func(id string, response *oncekeeper.Response) error {
				res := s.Apply(b.Context(), testBegin(id, id))[0]
				if res.Refusal() != nil || res.Verdict != lifecycle.Granted {
					return fmt.Errorf("begin: %v %w", res.Verdict, res.Refusal())
				}
				return s.Apply(b.Context(), lifecycle.Settle{
					Key: testKey(id), Token: res.Record.Token, As: oncekeeper.SettledComplete, Response: response,
				})[0].Refusal()
			})
		})
	}
}

// plain gives what a caller does without the store.
func plain(b *testing.B, dsn string, callers int) func(string, *oncekeeper.Response) error {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		b.Fatal(err)
	}
	cfg.MaxConns = int32(min(callers, 32))
	pool, err := pgxpool.NewWithConfig(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	sql := newStatements(databaseClock)
	return func(id string, response *oncekeeper.Response) error {
		var begin, settle columnsOf
		if err := addBegin(&begin, testBegin(id, id)); err != nil {
			return err
		}
		var tenant, operation, key string
		var token, written int64
		if err := pool.QueryRow(b.Context(), sql.begin.one, begin.args()...).Scan(&tenant, &operation, &key, &token, &written); err != nil {
			return err
		}
		err := addSettle(&settle, lifecycle.Settle{Key: testKey(id), Token: token, As: oncekeeper.SettledComplete, Response: response})
		if err != nil {
			return err
		}
		rows, err := pool.Query(b.Context(), sql.settle.one, settle.args()...)
		if err != nil {
			return err
		}
		defer rows.Close()
		if !rows.Next() {
			return fmt.Errorf("not settled: %w", rows.Err())
		}
		_, err = scanRecord(rows)
		return err
	}
}

var benchmarked atomic.Int64

func pairs(b *testing.B, callers int, pair func(id string, response *oncekeeper.Response) error) {
	response := &oncekeeper.Response{Body: []byte(strings.Repeat("x", 256))}
	var next atomic.Int64
	var all sync.WaitGroup
	b.ReportAllocs()
	start := time.Now()
	for range callers {
		all.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if err := pair(fmt.Sprintf("%016d", benchmarked.Add(1)), response); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "pairs/s")
}

func testKey(id string) oncekeeper.Key {
	return oncekeeper.Key{Tenant: "shop", Operation: "pay.Payments/Charge", ID: id}
}

func testBegin(id, call string) lifecycle.Begin {
	return lifecycle.Begin{
		Key: testKey(id), Fingerprint: []byte("01234567890123456789012345678901"), FingerprintScheme: "pb1", CallID: call, Holder: "pod-7",
		Grant: oncekeeper.Grant{Lease: time.Minute, Retention: time.Hour, UnsettledRetention: 30 * 24 * time.Hour},
	}
}
