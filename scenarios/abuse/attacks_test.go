package abuse

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// attack is something that one host does to a server until ctx ends. Each time that it
// did it again it counts that, and waits its turn.
type attack struct {
	name string
	// times that it is done in a test.
	times int64
	run   func(ctx context.Context, to string, turn func() bool)
}

// attacker is the host that they come from.
const attacker = "127.0.0.2"

var attacks = []attack{
	{"connections with no call", 150, func(ctx context.Context, to string, turn func() bool) {
		for turn() {
			_, _ = connect(ctx, to, true)
		}
	}},
	{"connections that say nothing", 150, func(ctx context.Context, to string, turn func() bool) {
		for turn() {
			if conn, err := dialFrom(ctx, attacker, to); err == nil {
				context.AfterFunc(ctx, func() { _ = conn.Close() })
			}
		}
	}},
	{"half of a handshake", 150, func(ctx context.Context, to string, turn func() bool) {
		for turn() {
			if conn, err := dialFrom(ctx, attacker, to); err == nil {
				_, _ = io.WriteString(conn, http2.ClientPreface[:10])
				context.AfterFunc(ctx, func() { _ = conn.Close() })
			}
		}
	}},
	{"calls that are reset", 150, onOneConnection(true, nil, func(r *raw) error {
		stream, err := r.call(beginMethod)
		if err != nil {
			return err
		}
		return r.WriteRSTStream(stream, http2.ErrCodeCancel)
	})},
	{"headers of 1 MiB", 150, onOneConnection(true, nil, func(r *raw) error {
		_, err := r.call(beginMethod, largeHeader)
		return err
	})},
	{"messages of 4 GiB", 150, onOneConnection(true, nil, func(r *raw) error {
		stream, err := r.call(beginMethod)
		if err != nil {
			return err
		}
		return r.message(stream, 1<<32-1, make([]byte, 1000), false)
	})},
	{"messages that never end", 150, onOneConnection(true, nil, func(r *raw) error {
		stream, err := r.call(beginMethod)
		if err != nil {
			return err
		}
		return r.message(stream, 4<<20, make([]byte, 1000), false)
	})},
	{"answers that nobody takes", 600, onOneConnection(true, []http2.Setting{{ID: http2.SettingInitialWindowSize}}, askForLarge)},
	{"connections that nobody reads", 600, onOneConnection(false, []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}}, askForLarge)},
	{"Begins that wait", 150, func(ctx context.Context, to string, turn func() bool) {
		conn, err := grpc.NewClient(to, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return
		}
		defer conn.Close()
		var n atomic.Int64
		for turn() {
			go func() {
				_, _ = pb.NewIdempotencyServiceClient(conn).Begin(ctx, &pb.BeginRequest{
					Key: busyKey(), CallId: fmt.Sprint("w", n.Add(1)), Wait: durationpb.New(10 * time.Second),
				})
			}()
		}
	}},
}

// askForLarge asks for the large record that is there.
func askForLarge(r *raw) error {
	stream, err := r.call(getMethod)
	if err != nil {
		return err
	}
	text := encoded(&pb.GetRequest{Key: largeKey()})
	return r.message(stream, uint32(len(text)), text, true)
}

func busyKey() *pb.Key  { return &pb.Key{Tenant: "acme", Operation: "busy", Id: "1"} }
func largeKey() *pb.Key { return &pb.Key{Tenant: "acme", Operation: "large", Id: "1"} }

// onOneConnection does it again and again on one connection, and on another where the
// server closed that.
func onOneConnection(reads bool, settings []http2.Setting, once func(*raw) error) func(context.Context, string, func() bool) {
	return func(ctx context.Context, to string, turn func() bool) {
		for turn() {
			r, err := connect(ctx, to, reads, settings...)
			for err == nil && turn() {
				err = once(r)
			}
			if r != nil {
				_ = r.Close()
			}
		}
	}
}
