package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// keeper is an Oncekeeper service with a store of its own, and the guard that asks
// it. Elsewhere they are two processes: "oncekeeper serve" is the service, and the
// payment service dials it and makes the guard.
type keeper struct {
	guard *grpcguard.Guard

	conn   *grpc.ClientConn
	server *server.Server
	served chan error
	store  *pebble.Store
}

func startKeeper(dir string, twins *twins) (*keeper, error) {
	store, err := pebble.Open(pebble.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	k := &keeper{store: store, served: make(chan error, 1)}
	if err := k.start(twins); err != nil {
		return nil, errors.Join(fmt.Errorf("starting Oncekeeper: %w", err), k.stop())
	}
	return k, nil
}

func (k *keeper) start(twins *twins) error {
	service, err := server.New(server.Config{Store: k.store})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", loopback)
	if err != nil {
		return err
	}
	k.server = service
	go func() { k.served <- service.Serve(listener) }()

	k.conn, err = grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(twins.heldBack))
	if err != nil {
		return err
	}
	k.guard, err = grpcguard.New(client.New(k.conn), grpcguard.Config{Tenant: theTenant})
	return err
}

// theTenant stands for what authentication finds out.
func theTenant(context.Context) (string, error) { return "acme", nil }

// stop ends what was started of it.
func (k *keeper) stop() error {
	var faults []error
	if k.conn != nil {
		faults = append(faults, k.conn.Close())
	}
	if k.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
		defer cancel()
		faults = append(faults, k.server.Shutdown(ctx), <-k.served)
	}
	return errors.Join(append(faults, k.store.Close())...)
}
