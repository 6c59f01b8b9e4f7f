package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncekeeper/oncekeeper/internal/bench"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

func TestExamplesOfTheHelpOfBenchDoWhatTheySay(t *testing.T) {
	address, _ := serving(t, "--store", "memory:")
	t.Setenv("ONCEKEEPER_ADDRESS", address)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for _, line := range example.FindAllStringSubmatch((&benchCmd{}).Help(), -1) {
		code, stdout, stderr := command(t, words(line[1])[1:]...)
		if code != 0 || !strings.Contains(stdout, bench.Pairs) {
			t.Errorf("%s exits with %d: %s%s", line[1], code, stdout, stderr)
		}
		if strings.Contains(stdout, bench.Empty) == strings.Contains(line[1], "--target") {
			t.Errorf("%s shows empty calls, or not, as the service does not answer them:\n%s", line[1], stdout)
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind are %v, %v", left, err)
	}
}

// quick is a run that measures next to nothing.
func quick(args ...string) []string {
	return append([]string{"bench", "--callers", "4", "--rounds", "1", "--slice", "50ms", "--keys", "100", "--json"}, args...)
}

func TestBenchMeasuresEveryLoadAndLeavesNothingInADirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	code, stdout, stderr := command(t, quick("--store", "pebble:"+dir)...)
	var report bench.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 {
		t.Fatalf("bench exits with %d: %s %v", code, stderr, err)
	}
	measuredAll(t, report, bench.Empty, bench.Pairs, bench.Coalesced, bench.Replays, bench.Batches)
	if len(report.Ratios) != 4 {
		t.Errorf("the ratios are %+v, want four", report.Ratios)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind are %v, %v", left, err)
	}
}

func measuredAll(t *testing.T, report bench.Report, names ...string) {
	t.Helper()
	for _, loads := range [][]bench.Result{report.Loads, report.One} {
		var found []string
		for _, l := range loads {
			if l.Units == 0 || l.PerSecond <= 0 || l.P50 <= 0 || l.P99 < l.P50 {
				t.Errorf("a load is %+v", l)
			}
			found = append(found, l.Load)
		}
		if strings.Join(found, ", ") != strings.Join(names, ", ") {
			t.Errorf("the loads are %q, want %q", found, names)
		}
	}
}

func TestBenchMeasuresPlainSQLBesideAServiceOnPostgresAndLeavesNoSchema(t *testing.T) {
	dsn := pgtest.EmptyDatabase(t)
	code, stdout, stderr := command(t, quick("--store", dsn)...)
	var report bench.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 {
		t.Fatalf("bench exits with %d: %s %v", code, stderr, err)
	}
	measuredAll(t, report, bench.Empty, bench.Pairs, bench.Coalesced, bench.Replays, bench.Batches, bench.Plain)
	if len(report.Ratios) != 3 {
		t.Errorf("the ratios are %+v, want three", report.Ratios)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var left int
	err = conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'oncekeeper%') + (SELECT count(*) FROM pg_tables WHERE tablename LIKE '%oncekeeper%')`).Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d schemas and tables are left behind, %v", left, err)
	}
}

func TestBenchCheckFailsWhereARatioFallsShort(t *testing.T) {
	for name, c := range map[string]struct {
		ratios []bench.Ratio
		fails  bool
	}{
		"short":            {[]bench.Ratio{{Name: "pairs", Value: 0.5, Bound: 0.6}}, true},
		"reached":          {[]bench.Ratio{{Name: "pairs", Value: 0.6, Bound: 0.6}}, false},
		"nothing to check": {nil, true},
	} {
		var out bytes.Buffer
		err := (&benchCmd{Check: true}).print(console{out: &out}, bench.Report{Ratios: c.ratios})
		if (err != nil) != c.fails {
			t.Errorf("%s: --check gives %v", name, err)
		}
	}
}

func TestBenchTellsWhatIsWrong(t *testing.T) {
	for want, args := range map[string][]string{
		"callers are":         {"--callers", "0"},
		"--connections":       {"--connections", "0"},
		"--store of kind":     {"--store", "redis:x"},
		"service running":     {"--target", "--address", "127.0.0.1:1", "--timeout", "200ms"},
		"cannot be reached":   {"--store", "postgres://nobody:secret@127.0.0.1:1/none"},
		"at least one round":  {"--rounds", "0"},
		"a slice is above":    {"--slice", "0s"},
		"at least one key":    {"--keys", "0"},
		"0 to 1,048,576 byte": {"--response", "2000000"},
	} {
		code, _, stderr := command(t, append([]string{"bench"}, args...)...)
		if code == 0 || !strings.Contains(stderr, want) || strings.Contains(stderr, "secret") {
			t.Errorf("bench %v exits with %d: %s, want %q", args, code, stderr, want)
		}
	}
}
