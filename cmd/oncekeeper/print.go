package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func printJSON(w io.Writer, m proto.Message) error {
	raw, err := protojson.Marshal(m)
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
			_, _ = fmt.Fprintf(t, "%s\t%s\n", name, printable(s))
		}
	}
	row("state", stateName(rec))
	row("tenant", rec.GetKey().GetTenant())
	row("operation", rec.GetKey().GetOperation())
	row("id", rec.GetKey().GetId())
	row("attempt", rec.GetAttemptNumber())
	row("fencing token", rec.GetFencingToken())
	row("holder", rec.GetHolder())
	row("principal", rec.GetPrincipal())
	row("trace", traceOf(rec.GetTraceParent()))
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
	row("in logs", wire.KeyFromProto(rec.GetKey()).Hash())
	if err := t.Flush(); err != nil {
		return err
	}
	return printHistory(w, rec)
}

// traceOf gives the trace's id, by which people look for it.
func traceOf(parent string) string {
	if parts := strings.Split(parent, "-"); len(parts) == 4 {
		return parts[1]
	}
	return ""
}

func moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().UTC().Format("2006-01-02 15:04:05.000000 UTC")
}

func describeBody(r *pb.StoredResponse) string {
	if r.GetOmitted() {
		return "not kept"
	}
	about := strings.TrimSpace(fmt.Sprintf("%d bytes %s", len(r.GetBody()), r.GetContentType()))
	if readable := string(r.GetBody()); len(readable) > 0 && len(readable) <= 200 && printable(readable) == readable {
		return about + ": " + readable
	}
	return about
}

// printable keeps what callers stored from moving an operator's cursor.
func printable(s string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, odd) < 0 {
		return s
	}
	return strconv.Quote(s)
}
