// Package inprocess is Oncekeeper inside its caller's own process: the same
// service and the same client, over a store that the process opens itself, and no
// network between. Library first, service later.
//
//	store, err := pebble.Open(pebble.Config{Dir: "once-data"})
//	...
//	keeper, err := inprocess.Open(inprocess.Config{Store: store})
//	...
//	defer keeper.Close(ctx)
//	c := keeper.Client()
//
// Whoever outgrows it starts `oncekeeper serve` on the same store, and changes one
// line: c := client.New(conn), of a connection to that service. Keys, tokens,
// outcomes and the code that asks for them stay as they are.
//
// Which store is a question of how many processes share the keys. A directory
// (storage/pebble) is held by one process at a time, and a second one is refused.
// A database (storage/postgres) may be shared: by processes that each have
// Oncekeeper inside, and by servers.
//
// This package knows no store by name, so that a program links the engine that it
// uses and no other. The calls go through gRPC, on a connection in memory: what
// holds of the service (limits, deadlines, waiting, refusals) holds here.
package inprocess

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage"
)

// Config is the service's own. Store is required, and Keeper.Close closes it. What
// expired stays on disk unless Sweep.Interval says how often to delete it.
type Config = server.Config

// connBytes is how much a connection holds of what its reader has not taken.
const connBytes = 256 << 10

// Keeper is a service in this process. Its methods may be called from any
// goroutine.
type Keeper struct {
	clock    clock.Clock
	store    storage.Store
	server   *server.Server
	listener *bufconn.Listener
	served   chan error
	conn     *grpc.ClientConn

	closing  sync.Once
	closeErr error
}

// Open starts the service, or says what is wrong with cfg; then the store is left
// open, and its caller's to close.
func Open(cfg Config) (*Keeper, error) {
	srv, err := server.New(cfg)
	if err != nil {
		return nil, err
	}
	k := &Keeper{
		clock: cfg.Clock, store: cfg.Store, server: srv,
		listener: bufconn.Listen(connBytes), served: make(chan error, 1),
	}
	if k.clock == nil {
		k.clock = clock.System
	}
	if k.conn, err = k.Dial(); err != nil {
		return nil, err
	}
	go func() { k.served <- srv.Serve(k.listener) }()
	return k, nil
}

// Client makes a client of the service, which counts on Config.Clock. All of them
// share one connection. A client needs no closing; its calls fail once the Keeper
// is closed.
func (k *Keeper) Client(opts ...client.Option) *client.Client {
	return client.New(k.conn, append([]client.Option{client.WithClock(k.clock)}, opts...)...)
}

// Dial makes a connection of its own to the service, for clients with
// interceptors, and for whatever else speaks its protocol. Its caller closes it.
func (k *Keeper) Dial(opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:oncekeeper", append([]grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return k.listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	}, opts...)...)
}

// Close ends the service as SIGTERM ends a server: whoever waits is answered that
// it is unavailable, calls under way are finished, and the store is closed. Where
// ctx ends first the rest is cut off, and ctx's cause is given; the store closes
// when what it was writing is written.
//
// Attempts that still run are not waited for. Their lease ends as if the process
// had died: end them first. A second Close gives what the first gave.
func (k *Keeper) Close(ctx context.Context) error {
	k.closing.Do(func() {
		stopped := k.server.Shutdown(ctx)
		k.closeErr = errors.Join(stopped, <-k.served, k.closeStore(ctx), k.conn.Close())
	})
	return k.closeErr
}

// closeStore gives up waiting for a store that hangs.
func (k *Keeper) closeStore(ctx context.Context) error {
	closed := make(chan error, 1)
	go func() { closed <- k.store.Close() }()
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the store is not closed yet: %w", context.Cause(ctx))
	}
}
