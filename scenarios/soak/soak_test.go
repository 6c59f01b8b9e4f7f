package soak

import (
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/internal/served"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

var (
	length = flag.Duration("soak.for", 6*time.Second, "how long each server is under load; judged from three minutes on")
	pace   = flag.Int("soak.rate", 200, "operations a second, of all callers together; each is two to four calls")
	output = flag.String("soak.csv", "", "folder for a CSV of the samples of each run; default: none is written")
)

const (
	callers = 64
	// longEnough is from when on a run is long enough to say that something is flat.
	longEnough = 3 * time.Minute
	// samplesAtLeast are taken in a short run; in a long one there is one in ten
	// seconds.
	samplesAtLeast = 18
)

// interval is what lies between two samples.
func interval() time.Duration {
	return min(10*time.Second, *length/samplesAtLeast)
}

func TestAServerOnPebbleStaysAsItIs(t *testing.T) {
	run(t, "pebble", "pebble:"+t.TempDir())
}

func TestAServerOnPostgresStaysAsItIs(t *testing.T) {
	run(t, "postgres", pgtest.Database(t))
}

// run puts a server on store under load, and judges what it takes.
func run(t *testing.T, name, store string) {
	t.Setenv("GODEBUG", traced(interval().Milliseconds()))
	count := &goroutines{}
	address := served.FreeAddress(t)
	server := served.StartHeard(t, count.heard, store, address, "--sweep-interval", "10s", "--sweep-grace", "10m")
	ctx, stop := context.WithTimeout(t.Context(), *length)
	defer stop()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	l := &load{address: address, recent: make([]string, 4096)}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			l.caller(ctx, time.Duration(callers)*time.Second/time.Duration(*pace), rand.New(rand.NewPCG(seed, uint64(i))))
		})
	}
	samples := watch(ctx, t, server, count, l)
	all.Wait()
	save(t, name, samples)
	for _, fault := range l.faults() {
		t.Error(fault)
	}
	t.Logf("%s, %v: %s\n%s", name, *length, l, account(samples))
	if missing := l.missing(); missing != "" {
		t.Errorf("nothing was seen of: %s", missing)
	}
	if last := samples[len(samples)-1]; last.Goroutines < 10 || last.Files < 10 || last.RSS < 1<<20 {
		t.Errorf("the last sample is %+v: it is not counted right", last)
	}
	if *length >= longEnough {
		for _, grown := range judge(samples) {
			t.Errorf("%s has grown: %s", name, grown)
		}
	}
	server.Stop(t)
}

// watch samples until ctx ends.
func watch(ctx context.Context, t *testing.T, server *served.Process, count *goroutines, l *load) (samples []sample) {
	t.Helper()
	ticker := time.NewTicker(interval())
	defer ticker.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return samples
		case <-ticker.C:
		}
		s, err := count.look(server.PID())
		if err != nil {
			t.Fatalf("the server cannot be looked at: %v", err)
		}
		s.At, s.Calls = time.Since(began), l.answered.Load()
		samples = append(samples, s)
	}
}

// save writes the samples down where asked to.
func save(t *testing.T, name string, samples []sample) {
	t.Helper()
	if *output == "" {
		return
	}
	var text strings.Builder
	w := csv.NewWriter(&text)
	_ = w.Write([]string{"seconds", "rss_bytes", "goroutines", "open_files", "calls"}) // to memory
	for _, s := range samples {
		row := []string{strconv.FormatFloat(s.At.Seconds(), 'f', 1, 64)}
		for _, n := range []int64{s.RSS, s.Goroutines, s.Files, s.Calls} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		_ = w.Write(row)
	}
	w.Flush()
	path := fmt.Sprintf("%s/soak-%s.csv", *output, name)
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("the samples are in %s", path)
}
