package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// remote is how a command reaches the service.
type remote struct {
	Address string        `env:"ONCEKEEPER_ADDRESS" default:"127.0.0.1:8460" help:"Address of the service."`
	Timeout time.Duration `env:"ONCEKEEPER_TIMEOUT" default:"10s" help:"How long to wait for its answer."`
}

func (r *remote) dial() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(r.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("--address %s: %w", r.Address, err)
	}
	return conn, nil
}

type getCmd struct {
	Tenant    string `arg:"" help:"Whose operation."`
	Operation string `arg:"" help:"Which operation."`
	ID        string `arg:"" name:"id" help:"The idempotency key."`
	JSON      bool   `name:"json" help:"Print the whole record as JSON."`

	remote
}

func (c *getCmd) Help() string {
	return "Example: oncekeeper get demo greet 1\n\nExits with 4 where there is no such record, or it expired."
}

func (c *getCmd) Run(ctx context.Context, term console) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var trailer metadata.MD
	res, err := pb.NewIdempotencyServiceClient(conn).Get(ctx, &pb.GetRequest{
		Key: &pb.Key{Tenant: c.Tenant, Operation: c.Operation, Id: c.ID},
	}, grpc.Trailer(&trailer))
	if err != nil {
		return c.explain(wire.FromError(err, trailer))
	}
	if c.JSON {
		return printJSON(term.out, res.GetRecord())
	}
	return printTable(term.out, res.GetRecord())
}

func (c *getCmd) explain(err error) error {
	switch {
	case errors.Is(err, oncekeeper.ErrKeyNotFound):
		return &codedError{fmt.Errorf("there is no record of %q in %q of tenant %q, or it expired", c.ID, c.Operation, c.Tenant), exitNotFound}
	case status.Code(err) == codes.Unavailable:
		return fmt.Errorf("no answer from %s: is the service running there? (%s)", c.Address, status.Convert(err).Message())
	default:
		return errors.New(strings.TrimPrefix(status.Convert(err).Message(), "oncekeeper: "))
	}
}

func printJSON(w io.Writer, rec *pb.KeyRecord) error {
	raw, err := protojson.Marshal(rec)
	if err != nil {
		return err
	}
	// protojson varies its white space on purpose; scripts want the same each time.
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = out.WriteTo(w)
	return err
}

func printTable(w io.Writer, rec *pb.KeyRecord) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, value any) {
		if s := fmt.Sprint(value); s != "" {
			_, _ = fmt.Fprintf(t, "%s\t%s\n", name, s)
		}
	}
	row("state", strings.TrimPrefix(rec.GetState().String(), "STATE_"))
	row("tenant", rec.GetKey().GetTenant())
	row("operation", rec.GetKey().GetOperation())
	row("id", rec.GetKey().GetId())
	row("attempt", rec.GetAttemptNumber())
	row("fencing token", rec.GetFencingToken())
	row("holder", rec.GetHolder())
	row("fingerprint", strings.TrimSpace(fmt.Sprintf("%s %x", rec.GetFingerprintScheme(), rec.GetFingerprint())))
	row("created", moment(rec.GetCreateTime()))
	row("lease ends", moment(rec.GetLeaseExpireTime()))
	row("settled", moment(rec.GetSettleTime()))
	row("expires", moment(rec.GetExpireTime()))
	if hold, _ := wire.HoldFromProto(rec.GetOnLeaseExpiry()); hold {
		row("on lease expiry", "hold")
	}
	if n := len(rec.GetCheckpoint()); n > 0 {
		row("checkpoint", fmt.Sprintf("%d bytes", n))
	}
	if r := rec.GetOutcome().GetResponse(); r != nil {
		row("response", describeBody(r))
		row("resource", r.GetResource())
	}
	if s := rec.GetOutcome().GetStatus(); s != nil {
		row("status", fmt.Sprintf("%s: %s", codes.Code(s.GetCode()), s.GetMessage()))
	}
	row("etag", rec.GetEtag())
	return t.Flush()
}

func moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().UTC().Format("2006-01-02 15:04:05.000000 UTC")
}

func describeBody(r *pb.StoredResponse) string {
	if r.GetOmitted() {
		return "not kept: it was too large"
	}
	about := strings.TrimSpace(fmt.Sprintf("%d bytes %s", len(r.GetBody()), r.GetContentType()))
	if readable := string(r.GetBody()); len(readable) > 0 && len(readable) <= 200 && isText(readable) {
		return about + ": " + readable
	}
	return about
}

func isText(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
