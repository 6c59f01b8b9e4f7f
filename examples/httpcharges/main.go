// Command httpcharges is a small HTTP API behind httpguard, to try by curl as
// docs/http.md does. Oncekeeper is inside the same process, on a store in memory;
// with -oncekeeper it is a service elsewhere.
//
//	go run ./examples/httpcharges
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/inprocess"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// stopWithin bounds how long the end may take.
const stopWithin = 10 * time.Second

func main() {
	listen := flag.String("listen", "127.0.0.1:8480", "the address to serve HTTP on")
	service := flag.String("oncekeeper", "", "the address of Oncekeeper; none: it is in this process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *listen, *service); err != nil {
		fmt.Fprintln(os.Stderr, "httpcharges:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen, service string) error {
	keeper, closeKeeper, err := connect(service)
	if err != nil {
		return err
	}
	handler, err := newAPI(keeper)
	if err != nil {
		return errors.Join(err, closeKeeper())
	}
	server := &http.Server{Addr: listen, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()
	fmt.Println("listening on", listen)
	select {
	case err = <-served:
	case <-ctx.Done():
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		err = server.Shutdown(limited)
	}
	return errors.Join(err, closeKeeper())
}

// connect gives a client of the service at address, or of one in this process.
func connect(address string) (*client.Client, func() error, error) {
	if address != "" {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, nil, err
		}
		return client.New(conn), conn.Close, nil
	}
	store, err := pebble.Open(pebble.Config{}) // no directory: in memory
	if err != nil {
		return nil, nil, err
	}
	keeper, err := inprocess.Open(inprocess.Config{Store: store})
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return keeper.Client(), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
		defer cancel()
		return keeper.Close(ctx)
	}, nil
}
