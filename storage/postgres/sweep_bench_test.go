package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// BenchmarkSweep deletes records of 256 bytes, whose keys are in no order, synced,
// a thousand a call as the background sweeper does; an operation is a record.
func BenchmarkSweep(b *testing.B) {
	s := mustOpen(b, Config{DSN: pgtest.Start(b, "shared_buffers=256MB").Database(b), Plan: PlanMany})
	fillExpired(b, s, b.N)
	b.ResetTimer()
	swept := sweepAll(b, s, 1000)
	b.StopTimer()
	if swept != int64(b.N) {
		b.Errorf("swept %d of %d", swept, b.N)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// copySQL makes of the one record there is as many as are asked for, begun one
// after the other until two days ago.
const copySQL = `
INSERT INTO oncekeeper_records SELECT
	tenant, operation, md5(i::text), token, revision, created - back, lease_end - back, unsettled_until - back, expires - back, settled - back,
	sweep_at - back, lease, retention, state, last, takeover, hold, granted, outcome
FROM oncekeeper_records, generate_series(1, $1::bigint - 1) AS i, LATERAL (SELECT 172800000000 + 10 * i AS back) AS b`

// fillExpired has n completed records that have expired.
func fillExpired(t testing.TB, s *Store, n int) {
	t.Helper()
	if err := pairOf(s)("the first", benchResponse()); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), s.cfg.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(copySQL, int64(n))
	exec(`UPDATE oncekeeper_records SET expires = expires - $1, sweep_at = sweep_at - $1 WHERE id = 'the first'`, (48 * time.Hour).Microseconds())
	exec(`ANALYZE oncekeeper_records`)
}

func sweepAll(t testing.TB, s *Store, limit int) (total int64) {
	t.Helper()
	for {
		swept, err := s.Sweep(t.Context(), storage.SweepQuery{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if total += swept.Records; !swept.More {
			return total
		}
	}
}
