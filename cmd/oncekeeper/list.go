package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// scope narrows a command to some keys of a service.
type scope struct {
	Tenant    string `help:"Of this tenant alone."`
	Operation string `help:"Of this operation alone."`
}

type listCmd struct {
	scope
	IDPrefix      string    `name:"id-prefix" help:"Of ids that begin so."`
	State         []string  `enum:"pending,abandoned,unresolved,released,completed,failed" help:"In one of these states: ${enum}."`
	CreatedAfter  time.Time `placeholder:"TIME" help:"Created after TIME (2006-01-02T15:04:05Z)."`
	CreatedBefore time.Time `placeholder:"TIME" help:"Created before TIME."`
	OldestFirst   bool      `help:"Order by the end of the lease, for states pending, abandoned and unresolved. Default: by key."`
	Limit         int32     `default:"100" help:"How many to print at the most; 0 for all."`
	PageToken     string    `placeholder:"TOKEN" help:"Go on where a command with the same filters stopped."`
	JSON          bool      `name:"json" help:"Print pages as JSON, one document each: records and nextPageToken."`
	Full          bool      `help:"With --json: bodies and checkpoints too."`

	remote
}

func (c *listCmd) Help() string {
	return `Records that expired are not listed, swept or not.

Examples:

  oncekeeper list --tenant demo --state unresolved --oldest-first

  oncekeeper list --operation greet --limit 0 --json`
}

// Validate refuses what the service would, in the words of flags.
func (c *listCmd) Validate() error {
	if c.OldestFirst && len(c.State) == 0 {
		return errors.New("--oldest-first goes with --state pending, abandoned or unresolved")
	}
	if c.Full && !c.JSON {
		return errors.New("--full goes with --json")
	}
	if c.Limit < 0 {
		return errors.New("--limit is below 0")
	}
	return nil
}

func (c *listCmd) Run(ctx context.Context, term console) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	admin := pb.NewAdminServiceClient(conn)
	req := c.request()
	for left, first := c.Limit, true; ; first = false {
		if c.Limit > 0 {
			req.PageSize = left
		}
		page, err := ask(ctx, &c.remote, admin.ListRecords, req)
		if err != nil {
			return c.explain(err)
		}
		if err := c.print(term.out, page, first); err != nil {
			return err
		}
		req.PageToken = page.GetNextPageToken()
		left -= int32(len(page.GetRecords()))
		if req.GetPageToken() == "" {
			return nil
		}
		if c.Limit > 0 && left <= 0 {
			_, _ = fmt.Fprintf(term.err, "there are more: go on with --page-token %s\n", req.GetPageToken())
			return nil
		}
	}
}

func (c *listCmd) request() *pb.ListRecordsRequest {
	req := &pb.ListRecordsRequest{
		Tenant: c.Tenant, Operation: c.Operation, IdPrefix: c.IDPrefix, PageToken: c.PageToken, PageSize: 1000,
		View: pb.ListRecordsRequest_VIEW_BASIC,
	}
	for _, state := range c.State {
		req.States = append(req.States, pb.KeyRecord_State(pb.KeyRecord_State_value["STATE_"+strings.ToUpper(state)]))
	}
	if !c.CreatedAfter.IsZero() {
		req.CreatedAfter = timestamppb.New(c.CreatedAfter)
	}
	if !c.CreatedBefore.IsZero() {
		req.CreatedBefore = timestamppb.New(c.CreatedBefore)
	}
	if c.OldestFirst {
		req.Order = pb.ListRecordsRequest_ORDER_AGE
	}
	if c.Full {
		req.View = pb.ListRecordsRequest_VIEW_FULL
	}
	return req
}

func (c *listCmd) print(w io.Writer, page *pb.ListRecordsResponse, first bool) error {
	if c.JSON {
		return printJSON(w, page)
	}
	return printRows(w, page.GetRecords(), first)
}

// printRows prints a page; the columns of one page are as wide as it needs.
func printRows(w io.Writer, records []*pb.KeyRecord, header bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if header {
		_, _ = fmt.Fprintln(t, "STATE\tTENANT\tOPERATION\tID\tATTEMPT\tCREATED\tLEASE ENDS\tEXPIRES")
	}
	for _, rec := range records {
		row := []string{
			stateName(rec), printable(rec.GetKey().GetTenant()), printable(rec.GetKey().GetOperation()), printable(rec.GetKey().GetId()),
			fmt.Sprint(rec.GetAttemptNumber()), second(rec.GetCreateTime()), second(rec.GetLeaseExpireTime()), second(rec.GetExpireTime()),
		}
		_, _ = fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

func stateName(rec *pb.KeyRecord) string {
	return strings.TrimPrefix(rec.GetState().String(), "STATE_")
}

func second(t *timestamppb.Timestamp) string {
	if t == nil {
		return "never"
	}
	return t.AsTime().UTC().Format(time.RFC3339)
}
