package grpcguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func TestNamesThatAreNeverReplayedCannotBeNamed(t *testing.T) {
	for _, name := range []string{
		"authorization", "Proxy-Authorization", "authentication-info", "www-authenticate", "proxy-authenticate",
		"cookie", "Cookie", "set-cookie", "content-type", "content-length", "content-encoding", "connection", "transfer-encoding", "te", "date",
		"idempotency-key", "idempotency-replayed", "oncekeeper-reason",
		"", ":path", "grpc-status", "GRPC-Encoding", "two words", "line\nbreak", "caf\u00e9",
	} {
		for _, cfg := range []grpcguard.Config{{ReplayHeader: []string{"location", name}}, {ReplayTrailer: []string{name}}} {
			cfg.Tenant = acme
			if _, err := grpcguard.New(client.New(answering{}), cfg); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
				t.Errorf("New takes %q to be replayed: %v; want an error that names it", name, err)
			}
		}
	}
}

func TestAValueThatMetadataCannotCarryIsNotKept(t *testing.T) {
	k := startKeeper(t)
	guard, err := grpcguard.New(k.Client, grpcguard.Config{Tenant: acme, ReplayHeader: []string{"location", "raw-bin"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = guard.Unary()(incoming(t, "k"), &testservicev1.RefundRequest{}, info(refundOp), func(ctx context.Context, _ any) (any, error) {
		return &testservicev1.RefundResponse{}, grpc.SetHeader(ctx, metadata.Pairs("location", "line\nbreak", "location", "refunds/1", "raw-bin", "\x00\xff"))
	})
	mustBe(t, err, codes.OK)
	if got := fmt.Sprintf("%q", k.record(t, refundOp, "k").Outcome.Response.Metadata); got != fmt.Sprintf("%q", []oncekeeper.MetadataEntry{
		{Kind: oncekeeper.MetadataHeader, Name: "location", Value: []byte("refunds/1")},
		{Kind: oncekeeper.MetadataHeader, Name: "raw-bin", Value: []byte("\x00\xff")},
	}) {
		t.Errorf("kept is %s, want the location that can be carried, and the bytes", got)
	}
}

// What is kept may be of another version's guard, or another language's.
func TestAKeptEntryThatCannotBeCarriedSpoilsNoReplay(t *testing.T) {
	kept := &oncekeeper.Response{Body: []byte("\x0a\x09refunds/1"), ContentType: "type.googleapis.com/testservice.v1.RefundResponse"}
	for _, kind := range []oncekeeper.MetadataKind{oncekeeper.MetadataHeader, oncekeeper.MetadataTrailer} {
		for name, value := range map[string]string{
			"two words": "1", ":status": "500", "grpc-status": "13", "grpc-encoding": "gzip", "content-type": "text/html",
			"line": "1\r\nset-cookie: 2", "high": "\xff", "idempotency-replayed": "false", "Location": "refunds/1", "raw-bin": "\xff",
		} {
			kept.Metadata = append(kept.Metadata, oncekeeper.MetadataEntry{Kind: kind, Name: name, Value: []byte(value)})
		}
	}
	outcome := wire.OutcomeToProto(&oncekeeper.Outcome{Response: kept})
	conn := answering{&pb.BeginResponse{Result: &pb.BeginResponse_Outcome{Outcome: outcome}}}
	g := serve(t, &keeper{Client: client.New(conn)}, &service{}, grpcguard.Config{})
	response, told := g.refundOnce(t, "k")
	if told.err != nil || response.GetName() != "refunds/1" || !told.replayed() {
		t.Fatalf("the replay is %v, %v, marked as one: %t", response, told.err, told.replayed())
	}
	for where, md := range map[string]metadata.MD{"header": told.header, "trailer": told.trailer} {
		if got := fmt.Sprintf("%q %q", md["location"], md["raw-bin"]); got != `["refunds/1"] ["\xff"]` {
			t.Errorf("the %s has %s, want what can be carried", where, got)
		}
		if md["line"] != nil || md["high"] != nil || md["two words"] != nil {
			t.Errorf("the %s is %v", where, md)
		}
	}
}

// strict is a transport that takes the mark and nothing else.
type strict struct {
	grpc.ServerTransportStream
	header metadata.MD
}

func (s *strict) SetHeader(md metadata.MD) error {
	if len(md) > len(md["idempotency-replayed"]) {
		return errors.New("not this")
	}
	s.header = metadata.Join(s.header, md)
	return nil
}

func (s *strict) SetTrailer(metadata.MD) error { return errors.New("nor this") }

func TestAReplayIsMarkedWhateverBecomesOfItsHeader(t *testing.T) {
	guard, err := grpcguard.New(startKeeper(t).Client, grpcguard.Config{Tenant: acme, ReplayHeader: []string{"location"}})
	if err != nil {
		t.Fatal(err)
	}
	stream := &strict{}
	ctx := grpc.NewContextWithServerTransportStream(incoming(t, "k"), stream)
	for range 2 {
		response, err := guard.Unary()(ctx, &testservicev1.RefundRequest{}, info(refundOp), func(ctx context.Context, _ any) (any, error) {
			return &testservicev1.RefundResponse{}, grpc.SetHeader(ctx, metadata.Pairs("location", "refunds/1"))
		})
		if err != nil || response == nil {
			t.Fatalf("the answer is %v, %v", response, err)
		}
	}
	if got := stream.header["idempotency-replayed"]; len(got) != 1 || got[0] != "true" {
		t.Errorf("the replay is marked %q, want true", got)
	}
}
