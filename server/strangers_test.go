package server_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func connectTo(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// watchHealth gives what a stranger's stream is answered first.
func watchHealth(t *testing.T, conn *grpc.ClientConn) error {
	t.Helper()
	stream, err := healthpb.NewHealthClient(conn).Watch(testContext(t), &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

func asShop(t *testing.T) context.Context {
	t.Helper()
	return metadata.AppendToOutgoingContext(testContext(t), "authorization", "Bearer ok_shop")
}

// Who says at once who it is needs no share of what strangers may have.
func TestAPrincipalsFirstCallMayBeLargeWhileStrangersSendAllTheyMay(t *testing.T) {
	address, srv, _ := onTheNetwork(t, 0)
	srv.StrangersHaveSentAll()
	heavy := &pb.BeginRequest{Key: key("1"), Holder: strings.Repeat("x", 3<<20)}
	for range 5 {
		if _, err := pb.NewIdempotencyServiceClient(connectTo(t, address)).Begin(asShop(t), heavy); status.Code(err) != codes.InvalidArgument {
			t.Fatalf("it is answered %v", err)
		}
	}
}

func TestStrangersCallsAreBoundedAndAPrincipalsAreNot(t *testing.T) {
	address, srv, log := onTheNetwork(t, 0)
	stranger := connectTo(t, address)
	srv.StrangersCallAllTheyMay()
	for range srv.StrangersCallsSpared() {
		if err := watchHealth(t, stranger); err != nil {
			t.Fatalf("one of the calls that are spared is answered %v", err)
		}
	}
	if err := watchHealth(t, stranger); status.Code(err) != codes.Unavailable {
		t.Errorf("one more is answered %v", err)
	}
	log.await(t, "too many calls at once of callers whom nobody knows")
	shop := connectTo(t, address)
	for range 3 * srv.StrangersCallsSpared() {
		stream, err := healthpb.NewHealthClient(shop).Watch(asShop(t), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatalf("a principal's is answered %v", err)
		}
	}
	if err := stranger.Close(); err != nil {
		t.Error(err)
	}
	srv.StrangersCallNoMore()
	if err := srv.AwaitNoStrangersCalls(testContext(t)); err != nil {
		t.Errorf("calls that are over are counted: %v", err)
	}
}
