package business

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
	"github.com/oncekeeper/oncekeeper/inprocess"
	"github.com/oncekeeper/oncekeeper/internal/served"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// world is what a scenario happens in.
type world struct {
	*testing.T
	// keeper asks Oncekeeper as a business does.
	keeper *client.Client
	service
	*shop
}

// service is Oncekeeper, wherever it runs.
type service interface {
	// lose has Oncekeeper gone for good, with all that it knew, and a fresh one in its
	// place that the same client reaches.
	lose(t *testing.T)
	// down has it gone until up.
	down(t *testing.T)
	up(t *testing.T)
	// reach is what a child process reaches it by.
	reach() string
}

// inEveryWorld runs a scenario in each world, on fresh stores.
func inEveryWorld(t *testing.T, scenario func(w *world)) {
	t.Helper()
	inWorlds(t, startInside, scenario)
}

// inEveryWorldOfProcesses is inEveryWorld for a business of several processes: those
// that have the service inside share its database.
func inEveryWorldOfProcesses(t *testing.T, scenario func(w *world)) {
	t.Helper()
	inWorlds(t, startInsideShared, scenario)
}

func inWorlds(t *testing.T, startInside func(*testing.T) (service, *client.Client), scenario func(w *world)) {
	t.Helper()
	for _, dialect := range []sqlreceipt.Dialect{sqlreceipt.SQLite, sqlreceipt.Postgres} {
		for name, start := range map[string]func(*testing.T) (service, *client.Client){
			"the service in its own process": startProcess,
			"the service inside":             startInside,
		} {
			t.Run(fmt.Sprintf("%s, %s", name, nameOf(dialect)), func(t *testing.T) {
				s, keeper := start(t)
				scenario(&world{T: t, keeper: keeper, service: s, shop: openShop(t, dialect)})
			})
		}
	}
}

func nameOf(d sqlreceipt.Dialect) string {
	if d == sqlreceipt.Postgres {
		return "Postgres"
	}
	return "SQLite"
}

// process is the built binary on a directory.
type process struct {
	address, dir string
	running      *served.Process
}

func startProcess(t *testing.T) (service, *client.Client) {
	p := &process{address: served.FreeAddress(t), dir: t.TempDir()}
	p.up(t)
	conn, err := served.Dial(p.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return p, client.New(conn)
}

func (p *process) up(t *testing.T)   { p.running = served.Start(t, "pebble:"+p.dir, p.address) }
func (p *process) down(t *testing.T) { p.running.Kill(t) }
func (p *process) reach() string     { return p.address }
func (p *process) lose(t *testing.T) {
	p.down(t)
	p.dir = t.TempDir()
	p.up(t)
}

// inside is Oncekeeper in this process. It is the client's connection too, since
// there is a new one behind it after each loss.
type inside struct {
	// fresh gives where a store that knows nothing lies, and open opens it.
	fresh func(*testing.T) string
	open  func(where string) (storage.Store, error)

	where   string
	running *inprocess.Keeper
	mu      sync.RWMutex
	conn    *grpc.ClientConn
}

func startInside(t *testing.T) (service, *client.Client) {
	return (&inside{
		fresh: func(t *testing.T) string { return t.TempDir() },
		open:  func(dir string) (storage.Store, error) { return pebble.Open(pebble.Config{Dir: dir}) },
	}).start(t)
}

func startInsideShared(t *testing.T) (service, *client.Client) {
	return (&inside{
		fresh: func(t *testing.T) string { return pgtest.Database(t) },
		open: func(address string) (storage.Store, error) {
			return postgres.Open(context.Background(), postgres.Config{DSN: address, MaxConns: 4})
		},
	}).start(t)
}

func (i *inside) start(t *testing.T) (service, *client.Client) {
	i.where = i.fresh(t)
	i.up(t)
	t.Cleanup(func() { i.down(t) })
	return i, client.New(i)
}

func (i *inside) reach() string { return i.where }

func (i *inside) up(t *testing.T) {
	t.Helper()
	store, err := i.open(i.where)
	if err != nil {
		t.Fatal(err)
	}
	if i.running, err = inprocess.Open(inprocess.Config{Store: store}); err != nil {
		t.Fatal(err)
	}
	conn, err := i.running.Dial()
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.conn = conn
}

// down stops as well as a library can be stopped: a process that dies takes its
// Oncekeeper with it, which the tests with processes show.
func (i *inside) down(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = i.conn.Close()
	if err := i.running.Close(ctx); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

func (i *inside) lose(t *testing.T) {
	t.Helper()
	i.down(t)
	i.where = i.fresh(t)
	i.up(t)
}

func (i *inside) now() *grpc.ClientConn {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.conn
}

func (i *inside) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	err := i.now().Invoke(ctx, method, args, reply, opts...)
	if status.Code(err) == codes.Canceled && ctx.Err() == nil {
		return status.Error(codes.Unavailable, "the service inside was closed") // as a network says it
	}
	return err
}

func (i *inside) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return i.now().NewStream(ctx, desc, method, opts...)
}
