package server_test

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

// onTheNetwork is a server on loopback, of one principal, shop.
func onTheNetwork(t *testing.T, most int) (address string, srv *server.Server, log *logged) {
	t.Helper()
	log = &logged{grown: make(chan struct{}, 1)}
	srv, address = serveOnTheNetwork(t, server.Config{
		Store: onPebble(t).open(t), Logger: slog.New(slog.NewTextHandler(log, nil)), MaxConnections: most,
		Trust: &auth.Trust{Principals: people(t, "shop, role: caller, tenant: acme")},
	}, func(*server.Server) {})
	return address, srv, log
}

func serveOnTheNetwork(t *testing.T, cfg server.Config, before func(*server.Server)) (*server.Server, string) {
	t.Helper()
	srv, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	before(srv)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	t.Cleanup(func() {
		_ = srv.Shutdown(testContext(t))
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return srv, lis.Addr().String()
}

// knock opens a connection from an address, and says whether the server greets it.
func knock(t *testing.T, from, to string) (net.Conn, bool) {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(testContext(t), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	_, err = io.ReadFull(conn, make([]byte, 9)) // the head of its settings
	return conn, err == nil
}

func TestConnectionsAreBoundedInAllAndFromOneAddress(t *testing.T) {
	address, _, log := onTheNetwork(t, 4)
	var open []net.Conn
	for range 3 {
		conn, greeted := knock(t, "127.0.0.1", address)
		if !greeted {
			t.Fatal("one of three is refused")
		}
		open = append(open, conn)
	}
	if _, greeted := knock(t, "127.0.0.1", address); greeted {
		t.Error("one address has all the room")
	}
	log.await(t, "connections are refused: there are too many")
	if _, greeted := knock(t, "127.0.0.2", address); !greeted {
		t.Error("another address finds no room")
	}
	if _, greeted := knock(t, "127.0.0.3", address); greeted {
		t.Error("a fifth of four is greeted")
	}
	open[0].Close()
	for again := testContext(t); ; { // the server sees that it is closed a moment later
		if _, greeted := knock(t, "127.0.0.3", address); greeted {
			break
		}
		if again.Err() != nil {
			t.Fatal("the room of a connection that was closed is lost")
		}
	}
}

// A stranger's calls are refused one by one, and its connection is closed before it
// has sent much; what a principal sends is not counted.
func TestAStrangerWhoSendsMuchLosesItsConnection(t *testing.T) {
	address, _, log := onTheNetwork(t, 0)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	keeper := pb.NewIdempotencyServiceClient(conn)
	heavy := &pb.BeginRequest{Key: key("1"), Holder: strings.Repeat("x", 3<<20)}
	as := metadata.AppendToOutgoingContext(testContext(t), "authorization", "Bearer ok_shop")
	for range 15 {
		if _, err := keeper.Begin(as, heavy); status.Code(err) != codes.InvalidArgument {
			t.Fatalf("a principal's is answered %v", err)
		}
	}
	if strings.Contains(log.String(), "they send much") {
		t.Fatalf("the log says %s", log)
	}
	stranger, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	for range 15 {
		_, err := pb.NewIdempotencyServiceClient(stranger).Begin(testContext(t), heavy)
		if got := status.Code(err); got != codes.Unauthenticated && got != codes.Unavailable {
			t.Errorf("the stranger is answered %v", err)
		}
	}
	log.await(t, "connections are closed: they send much")
	if _, err := keeper.Get(as, &pb.GetRequest{Key: key("1")}); status.Code(err) != codes.NotFound {
		t.Errorf("meanwhile the principal is answered %v", err)
	}
}
