package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

const defaultAddress = "127.0.0.1:8460"

// remote is how a command reaches the service.
type remote struct {
	Address string        `env:"ONCEKEEPER_ADDRESS" default:"${address}" help:"Address of the service."`
	Timeout time.Duration `env:"ONCEKEEPER_TIMEOUT" default:"${timeout}" help:"How long to wait for an answer of it."`

	credentialFlags
}

func (r *remote) dial() (*grpc.ClientConn, error) {
	opts, err := r.options(r.Address)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(r.Address, opts...)
	if err != nil {
		return nil, fmt.Errorf("--address %s: %w", r.Address, err)
	}
	return conn, nil
}

// ask makes one call of the service. Its error can be told by the sentinels.
func ask[Req, Res any](ctx context.Context, r *remote, call func(context.Context, Req, ...grpc.CallOption) (Res, error), req Req) (Res, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	var trailer metadata.MD
	res, err := call(ctx, req, grpc.Trailer(&trailer))
	return res, wire.FromError(err, trailer)
}

// explain says what a call's error means to who runs a command.
func (r *remote) explain(err error) error {
	message := status.Convert(err).Message()
	switch {
	case errors.Is(err, oncekeeper.ErrStoreUnavailable):
		return fmt.Errorf("the service at %s is there, but its store cannot answer now: its log says why", r.Address)
	case status.Code(err) == codes.DeadlineExceeded:
		return fmt.Errorf("no answer from %s within %v: give it longer with --timeout", r.Address, r.Timeout)
	case status.Code(err) == codes.Unavailable:
		return fmt.Errorf("no answer from %s: is the service running there? (asked %s: %s)", r.Address, r.speaks(), message)
	case status.Code(err) == codes.Unauthenticated:
		return fmt.Errorf("the service at %s does not know who is asking: give a token, in ONCEKEEPER_TOKEN or --token-file, or --cert and --key", r.Address)
	case status.Code(err) == codes.Unimplemented:
		return fmt.Errorf("the service at %s does not know this call: it is of another version than this command (%s)", r.Address, message)
	default:
		return errors.New(strings.TrimPrefix(message, "oncekeeper: "))
	}
}

// undecided: after err it is not known whether what was asked for was done.
func undecided(err error) bool {
	code := status.Code(err)
	return code == codes.DeadlineExceeded || code == codes.Unavailable || code == codes.Canceled
}
