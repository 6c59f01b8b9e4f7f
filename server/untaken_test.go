package server_test

import (
	"context"
	"runtime/debug"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
)

const (
	// roomOfOne is what one connection may leave untaken in these tests, roomOfAll all.
	roomOfOne, roomOfAll = 1 << 20, 2 << 20
	// untakenBody is so large that four and no five of it have room on a connection.
	untakenBody = 220 << 10
)

// untakenHarness is a server, and connections to it whose answers are taken when the test says.
type untakenHarness struct {
	server  *server.Server
	address string
}

func startSlow(t *testing.T) *untakenHarness {
	t.Helper()
	srv, address := serveOnTheNetwork(t, server.Config{Store: onPebble(t).open(t)}, func(s *server.Server) { s.BoundUntaken(roomOfOne, roomOfAll) })
	s := &untakenHarness{server: srv, address: address}
	keeper := pb.NewIdempotencyServiceClient(s.connect(t))
	for id, body := range map[string][]byte{"large": make([]byte, untakenBody), "small": []byte("paid")} {
		res, err := keeper.Begin(testContext(t), begin(id, ""))
		if err != nil {
			t.Fatal(err)
		}
		_, err = keeper.Complete(testContext(t), &pb.CompleteRequest{
			Key: key(id), FencingToken: res.GetGrant().GetFencingToken(), Response: &pb.StoredResponse{Body: body},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// connect opens a connection whose streams have a window that does not grow.
func (s *untakenHarness) connect(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStaticStreamWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask begins again what is done, and gives what takes its answer. Its call is
// answered when this returns, or refused with err.
func ask(t *testing.T, conn *grpc.ClientConn, id string) (take func() error, cancel func(), err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, pb.IdempotencyService_Begin_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(begin(id, "")); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	take = func() error {
		res := &pb.BeginResponse{}
		err := stream.RecvMsg(res)
		if err == nil && res.GetOutcome() == nil {
			t.Errorf("%s is answered %v", id, res)
		}
		return err
	}
	head, err := stream.Header()
	if err != nil {
		t.Fatal(err)
	}
	if len(head) > 0 {
		return take, cancel, nil
	}
	return nil, cancel, take() // it has no head and no answer
}

// fill asks for large answers and takes none, until one is refused.
func fill(t *testing.T, conn *grpc.ClientConn) (takes []func() error, cancels []func()) {
	t.Helper()
	for range 40 {
		take, cancel, err := ask(t, conn, "large")
		if err != nil {
			cancel()
			if status.Code(err) != codes.Unavailable {
				t.Fatalf("what is too much is answered %v", err)
			}
			return takes, cancels
		}
		takes, cancels = append(takes, take), append(cancels, cancel)
	}
	t.Fatalf("%d answers that nobody takes are kept, and none is refused", len(takes))
	return nil, nil
}

// awaitUntaken returns when so many bytes are left.
func (s *untakenHarness) awaitUntaken(t *testing.T, want int64) {
	t.Helper()
	other := s.connect(t)
	for ctx := testContext(t); s.server.Untaken() != want; {
		if ctx.Err() != nil {
			t.Fatalf("%d bytes of answers have room taken, want %d", s.server.Untaken(), want)
		}
		askSmall(t, other)
	}
}

func askSmall(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	take, cancel, err := ask(t, conn, "small")
	defer cancel()
	if err != nil {
		t.Fatalf("a small answer is refused: %v", err)
	}
	if err := take(); err != nil {
		t.Fatal(err)
	}
}

func TestAConnectionLeavesSoMuchUntakenAndNoMore(t *testing.T) {
	s := startSlow(t)
	conn := s.connect(t)
	collects := debug.SetGCPercent(-1)
	defer debug.SetGCPercent(collects)
	for range 3 { // what was taken has room again, and not when the collector comes
		takes, _ := fill(t, conn)
		if len(takes) != 4 {
			t.Errorf("%d answers are kept, want 4", len(takes))
		}
		askSmall(t, conn)
		for _, take := range takes {
			if err := take(); err != nil {
				t.Errorf("what is taken late is %v", err)
			}
		}
		s.awaitUntaken(t, 0)
	}
	debug.SetGCPercent(collects)
	for range 3 { // and what nobody waits for any more
		takes, cancels := fill(t, conn)
		if len(takes) != 4 {
			t.Errorf("%d answers are kept, want 4", len(takes))
		}
		for _, cancel := range cancels {
			cancel()
		}
		s.awaitUntaken(t, 0)
	}
}

func TestAllConnectionsLeaveSoMuchUntakenAndEachHasAnAnswer(t *testing.T) {
	s := startSlow(t)
	filled := 0
	conns := []*grpc.ClientConn{s.connect(t), s.connect(t), s.connect(t)}
	for _, conn := range conns {
		takes, _ := fill(t, conn)
		filled += len(takes)
	}
	if filled != 9 { // of all, which have room for nine
		t.Errorf("%d answers are kept of three connections, want 9", filled)
	}
	other := s.connect(t)
	askSmall(t, other)
	take, _, err := ask(t, other, "large")
	if err != nil {
		t.Fatalf("who left nothing untaken is refused: %v", err)
	}
	if _, _, err := ask(t, other, "large"); status.Code(err) != codes.Unavailable {
		t.Errorf("its second answer, which it does not take either, is %v", err)
	}
	if err := take(); err != nil {
		t.Error(err)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	s.awaitUntaken(t, 0)
	if takes, _ := fill(t, other); len(takes) != 4 {
		t.Errorf("when the others are gone %d answers are kept, want 4", len(takes))
	}
}
