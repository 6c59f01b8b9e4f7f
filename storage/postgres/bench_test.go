package postgres

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// BenchmarkPair is a Begin and its Complete with a response of 256 bytes, synced: by
// the store under each plan, and by plain pgx, which sends the same two statements
// for each call, on up to 32 connections. They take turns on databases of one
// server, so that what else the machine does meets all alike; x-plain is how many
// times as many pairs a second the store makes. On a Citus cluster the plan for
// single keys has the records distributed, and the others on the coordinator alone.
func BenchmarkPair(b *testing.B) {
	one, spread := benchDatabases(b)
	many := pairOf(mustOpen(b, Config{DSN: one(), Plan: PlanMany}))
	single := pairOf(mustOpen(b, Config{DSN: spread(), Plan: PlanSingle}))
	plainly := one()
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			by := []func(string, *oncekeeper.Response) error{plain(b, plainly, callers), many, single}
			took := make([]time.Duration, len(by))
			turn := max(1, min(20*callers, b.N/4))
			for left := b.N; left > 0; left -= turn {
				n := min(turn, left)
				for i, pair := range by {
					took[i] += pairs(b, callers, n, pair)
				}
			}
			for i, name := range []string{"plain", "many", "single"} {
				b.ReportMetric(float64(b.N)/took[i].Seconds(), name+"-pairs/s")
				b.ReportMetric(took[0].Seconds()/took[i].Seconds(), name+"-x-plain")
			}
		})
	}
}

// benchDatabases give fresh databases on one node, and over all that there are.
func benchDatabases(b *testing.B) (one, spread func() string) {
	if pgtest.Distributed() {
		one = func() string {
			dsn := pgtest.EmptyDatabase(b)
			if _, err := Migrate(b.Context(), Config{DSN: dsn}); err != nil {
				b.Fatal(err)
			}
			return dsn
		}
		return one, func() string { return pgtest.Database(b) }
	}
	one = func() string { return pgtest.Database(b) }
	if os.Getenv("ONCEKEEPER_TEST_POSTGRES") == "" {
		own := pgtest.Start(b, "shared_buffers=256MB")
		one = func() string { return own.Database(b) }
	}
	return one, one
}

// pairOf has s do a pair.
func pairOf(s *Store) func(id string, response *oncekeeper.Response) error {
	return func(id string, response *oncekeeper.Response) error {
		res := s.Apply(context.Background(), testBegin(id, id))[0]
		if res.Refusal() != nil || res.Verdict != lifecycle.Granted {
			return fmt.Errorf("begin: %v %w", res.Verdict, res.Refusal())
		}
		return s.Apply(context.Background(), lifecycle.Settle{
			Key: testKey(id), Token: res.Record.Token, As: oncekeeper.SettledComplete, Response: response,
		})[0].Refusal()
	}
}

// plain gives what a caller does without the store.
func plain(b *testing.B, dsn string, callers int) func(string, *oncekeeper.Response) error {
	p, err := OpenPlain(b.Context(), dsn, min(callers, 32))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	return func(id string, response *oncekeeper.Response) error {
		return p.Pair(b.Context(), testBegin(id, id), response)
	}
}

var benchmarked atomic.Int64

// pairs has callers make n pairs in all, and gives how long it took.
func pairs(b *testing.B, callers, n int, pair func(id string, response *oncekeeper.Response) error) time.Duration {
	response := benchResponse()
	var next atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for range callers {
		all.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := pair(fmt.Sprintf("%016d", benchmarked.Add(1)), response); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

func benchResponse() *oncekeeper.Response {
	return &oncekeeper.Response{Body: []byte(strings.Repeat("x", 256))}
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
