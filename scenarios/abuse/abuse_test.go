package abuse

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncekeeper/oncekeeper/internal/served"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// mayGrow is how much more memory the server may hold than before an attack: twice the
// answers that one connection may leave untaken, as much for what the collector leaves,
// and some for those under way. 600 answers of 1 MiB have no room in it.
const mayGrow = 256 << 20

// abused is a server, and others who call it.
type abused struct {
	address string
	server  *served.Process
	others  *others
}

func abuse(t testing.TB, flags ...string) *abused {
	t.Helper()
	address := served.FreeAddress(t)
	a := &abused{address: address, server: served.Start(t, "pebble:"+t.TempDir(), address, flags...)}
	conn, err := served.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	keeper := pb.NewIdempotencyServiceClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := keeper.Begin(ctx, &pb.BeginRequest{Key: busyKey(), CallId: "holder", Lease: durationpb.New(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	res, err := keeper.Begin(ctx, &pb.BeginRequest{Key: largeKey()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = keeper.Complete(ctx, &pb.CompleteRequest{
		Key: largeKey(), FencingToken: res.GetGrant().GetFencingToken(), Response: &pb.StoredResponse{Body: make([]byte, 1<<20-1024)},
	})
	if err != nil {
		t.Fatal(err)
	}
	a.others = startOthers(t, address)
	a.others.awaitRounds(t, 20)
	return a
}

// under runs f while an attack goes on, at most so many times and so many a second,
// and gives how often it was done; f can ask for it meanwhile.
func (a *abused) under(attack attack, most int64, rate int, f func(done func() int64)) int64 {
	ctx, cancel := context.WithCancel(context.Background())
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	var done atomic.Int64
	var running sync.WaitGroup
	running.Go(func() {
		attack.run(ctx, a.address, func() bool {
			if done.Load() >= most {
				<-ctx.Done()
			}
			select {
			case <-ticker.C:
				done.Add(1)
			case <-ctx.Done():
			}
			return ctx.Err() == nil
		})
	})
	a.others.attacked.Store(true)
	f(done.Load)
	a.others.attacked.Store(false)
	cancel()
	running.Wait()
	return done.Load()
}

// TestOthersAreAnsweredRightUnderAbuseAndTheServerTakesLittle has each attack in turn.
// How long calls take is told, and judged by nobody here: see BenchmarkUnderAbuse.
func TestOthersAreAnsweredRightUnderAbuseAndTheServerTakesLittle(t *testing.T) {
	a := abuse(t)
	for _, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			memory, files := resident(t, a.server.PID())
			grown, patience := int64(0), time.Now().Add(time.Minute)
			late := func() bool { return time.Now().After(patience) }
			n := a.under(attack, attack.times, 1000, func(done func() int64) {
				for i := 0; i < 5 || done() < attack.times && !late(); i++ {
					a.others.awaitRounds(t, 20)
					now, _ := resident(t, a.server.PID())
					grown = max(grown, now-memory)
				}
			})
			if grown > mayGrow {
				t.Errorf("the server holds %d MiB more, and may %d", grown>>20, mayGrow>>20)
			}
			a.awaitFiles(t, files+16)
			quiet, attacked := a.others.p99()
			t.Logf("%d times; p99 %v before, %v under it; %d MiB more", n, quiet, attacked, grown>>20)
			if n == 0 {
				t.Error("it was not done once")
			}
		})
	}
	a.others.stop()
	if err := a.others.faults(); err != nil {
		t.Error(err)
	}
	a.server.Stop(t)
}

// awaitFiles returns when the server has no more files open: connections that were
// left are closed, whatever was under way on them.
func (a *abused) awaitFiles(t testing.TB, most int64) {
	t.Helper()
	late := time.Now().Add(time.Minute)
	for {
		_, files := resident(t, a.server.PID())
		if files <= most {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("a minute after the attack the server has %d files open, and had %d with its others", files, most)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// BenchmarkUnderAbuse has quiet and each attack take turns, and fails where the p99 of
// others is more than three times what it is in quiet.
func BenchmarkUnderAbuse(b *testing.B) {
	const slice, turns = 4 * time.Second, 3
	for _, attack := range attacks {
		b.Run(attack.name, func(b *testing.B) {
			a := abuse(b)
			defer a.others.stop()
			for b.Loop() {
				a.others.p99()
				n, grown := int64(0), int64(0)
				before, _ := resident(b, a.server.PID())
				for range turns {
					time.Sleep(slice)
					n += a.under(attack, 10_000, 2_500, func(func() int64) {
						time.Sleep(slice)
						now, _ := resident(b, a.server.PID())
						grown = max(grown, now-before)
					})
				}
				quiet, attacked := a.others.p99()
				ratio := float64(attacked) / float64(quiet)
				b.Logf("%d times: p99 quiet %v, under it %v, ratio %.2f; %d MiB more", n, quiet, attacked, ratio, grown>>20)
				b.ReportMetric(ratio, "p99-ratio")
				if ratio > 3 {
					b.Errorf("the p99 of others is %.2f times what it is in quiet, and may be three times", ratio)
				}
			}
			if err := a.others.faults(); err != nil {
				b.Error(err)
			}
		})
	}
}
