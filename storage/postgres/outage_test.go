package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// countedLines is a log that keeps how many lines it has.
type countedLines struct{ n atomic.Int64 }

func (c *countedLines) Write(p []byte) (int, error) {
	c.n.Add(int64(strings.Count(string(p), "\n")))
	return len(p), nil
}

func TestADatabaseThatIsDownUnderLoadCostsLittleAndIsFoundAgain(t *testing.T) {
	database := pgtest.Start(t, "fsync=off", "autovacuum=off")
	o := &outage{T: t, proxy: newProxy(t, database.Database(t)), lines: &countedLines{}}
	log := slog.New(slog.NewTextHandler(o.lines, nil))
	o.Store = mustOpen(t, Config{DSN: o.dsn, MaxConns: outageConns, Logger: log})
	stopRemote := remoteCallers(t, serveForTest(t, server.Config{Store: o.Store, Logger: log}))
	l, stop := callersOf(t, o.Store, outageCallers)
	l.progress()
	for _, how := range []pgtest.Ending{pgtest.Immediate, pgtest.Fast, pgtest.Killed} {
		database.Down(t, how)
		o.isFlat(l)
		database.Up(t)
		dials := o.dialled()
		l.progress()
		if more := o.dialled() - dials; more > 3*outageConns {
			t.Errorf("%d connections were made once the database was back", more)
		}
	}
	stop()
	stopRemote()
	l.check(o.Store)
}

const outageCallers, outageConns = 64, 6

// outage is what is measured while a database is down.
type outage struct {
	*testing.T
	*Store
	*proxy
	lines *countedLines
}

// isFlat looks at what a database that is down costs while l's calls fail.
func (o *outage) isFlat(l *ledger) {
	o.Helper()
	l.await("failure", func(since, now counts) bool { return now.failures > since.failures+4*outageCallers })
	goroutines, logged, dials, began := runtime.NumGoroutine(), o.lines.n.Load(), o.dialled(), time.Now()
	l.await("end of failures", func(since, now counts) bool {
		if now.completions > since.completions || now.replays > since.replays {
			o.Fatal("a call was answered by a database that is down")
		}
		return now.failures > since.failures+2000
	})
	for what, c := range map[string]struct{ got, most int64 }{
		"goroutines more":     {int64(runtime.NumGoroutine() - goroutines), 100},
		"commands in a queue": {int64(o.queued()), 3 * outageCallers},
		"connections":         {int64(o.pool.Stat().TotalConns()), outageConns},
		"lines of log":        {o.lines.n.Load() - logged, 20},
		"attempts to connect": {o.dialled() - dials, 10 + 4*int64(time.Since(began)/time.Second)},
	} {
		if c.got > c.most {
			o.Errorf("while the database is down: %d %s, want at most %d", c.got, what, c.most)
		}
	}
}

// remoteCallers begin keys over the wire, and wait for some, until stop is called.
// Every error that they get must be STORE_UNAVAILABLE.
func remoteCallers(t *testing.T, keeper pb.IdempotencyServiceClient) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := &pb.Key{Tenant: "remote", Operation: "o", Id: fmt.Sprint(n / 50 * 50)}
				_, err := keeper.Begin(ctx, &pb.BeginRequest{Key: key, CallId: fmt.Sprint(i), Wait: durationpb.New(50 * time.Millisecond)})
				if err != nil && ctx.Err() == nil && !errors.Is(wire.FromError(err, nil), oncekeeper.ErrStoreUnavailable) {
					t.Errorf("a caller got %v", err)
				}
				if err != nil {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	stop = func() {
		cancel()
		all.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func serveForTest(t *testing.T, cfg server.Config) pb.IdempotencyServiceClient {
	t.Helper()
	srv, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	lis := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:test",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		if err := srv.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return pb.NewIdempotencyServiceClient(conn)
}

// queued gives how many commands wait for a committer.
func (s *Store) queued() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.queue.commands
}

func TestACallRightAfterTheDatabaseWasStartedAgainIsAnswered(t *testing.T) {
	database := pgtest.Start(t, "fsync=off")
	s := mustOpen(t, Config{DSN: database.Database(t)})
	for i := range 3 {
		for n := range 20 {
			res := s.Apply(t.Context(), testBegin(fmt.Sprintf("%d-%d", i, n), ""))[0]
			if res.Err != nil || res.Verdict != lifecycle.Granted {
				t.Fatalf("after %d restarts: %v %v", i, res.Verdict, res.Err)
			}
		}
		database.Down(t, pgtest.Fast)
		database.Up(t)
	}
}

func TestADatabaseThatIsDownIsToldSoHoweverSeldomItIsTried(t *testing.T) {
	b := &breaker{}
	for range 10 {
		b.failed(errors.New("connection refused"))
		b.until = time.Now().Add(-time.Hour) // nobody has tried since
		if !b.fails() {
			t.Fatal("an hour after the last try failed, the database is not told to be down")
		}
		_ = b.enter()
	}
	if b.worked(); b.fails() {
		t.Error("once a connection was made, the database is told to be down")
	}
}

func TestCallsWaitForTheConnectionsThatThereAreWhereNoMoreCanBeMade(t *testing.T) {
	database := pgtest.Start(t, "fsync=off")
	p := newProxy(t, asKeeper(t, database.Database(t), "CONNECTION LIMIT 1"))
	s := mustOpen(t, Config{DSN: p.dsn})
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			for n := range 10 {
				id := fmt.Sprintf("%d-%d", i, n)
				if res := s.Apply(t.Context(), testBegin(id, ""))[0]; res.Err != nil || res.Verdict != lifecycle.Granted {
					t.Errorf("begin: %v %v", res.Verdict, res.Err)
				}
				if _, err := s.Read(t.Context(), testKey(id)); err != nil {
					t.Errorf("read: %v", err)
				}
			}
		})
	}
	all.Wait()
	if n := p.dialled(); n > 100 {
		t.Errorf("%d connections were tried for", n)
	}
}
