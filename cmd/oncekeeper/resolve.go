package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc/codes"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

type resolveCmd struct {
	decision
	Completed bool    `xor:"resolution" help:"It happened. Without --response later callers are told that its answer was not kept."`
	Failed    failure `xor:"resolution" placeholder:"CODE MESSAGE" help:"It did not happen and will not: later callers get this gRPC status, CODE by name or number."`
	Release   bool    `xor:"resolution" help:"It did not happen: the next Begin runs it, as attempt 1."`

	Force bool `help:"Also under a live lease. Its holder is fenced."`

	Response    string `group:"With --completed" placeholder:"FILE" help:"The answer's body, byte for byte; - is standard input."`
	ContentType string `group:"With --completed" help:"What the body is: a media type, or type.googleapis.com/ and a message's full name."`
	StatusCode  int32  `group:"With --completed" help:"For HTTP: the status line's code."`
	Resource    string `group:"With --completed" help:"A pointer to what was made (charges/ch_1)."`
}

func (c *resolveCmd) Help() string {
	return `Decides a key that no attempt will settle: look into your own books first, for what you say is what every later caller is told.
Whoever held the key is fenced. What was settled already is never changed.

Examples:

  oncekeeper resolve demo greet 1 --release --reason "no row in the ledger" --yes

  oncekeeper resolve demo greet 1 --completed --resource charges/ch_1 --reason "charge ch_1 is there" --yes

  oncekeeper resolve demo greet 1 --failed FAILED_PRECONDITION "the account is closed" --reason "refused by the bank" --yes`
}

// Validate refuses a command line with no resolution, or with parts of an answer
// where there is none.
func (c *resolveCmd) Validate() error {
	if !c.Completed && !c.Release && c.Failed.code == codes.OK {
		return errors.New("say what became of it: --completed, --failed CODE MESSAGE or --release")
	}
	answer := c.Response != "" || c.ContentType != "" || c.StatusCode != 0 || c.Resource != ""
	if answer && !c.Completed {
		return errors.New("--response, --content-type, --status-code and --resource go with --completed")
	}
	if c.Response == "-" && !c.Yes && c.Etag == "" {
		return errors.New("--response - takes what you would be asked by: give --yes or --etag too")
	}
	return nil
}

func (c *resolveCmd) Run(ctx context.Context, term console) error {
	req := &pb.ResolveRecordRequest{Key: c.key(), Force: c.Force, Reason: c.Reason}
	if err := c.resolution(term, req); err != nil {
		return err
	}
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if req.Etag, err = c.look(ctx, term, conn, "Resolve it as "+c.words()+"?"); err != nil {
		return err
	}
	res, err := ask(ctx, &c.remote, pb.NewAdminServiceClient(conn).ResolveRecord, req)
	if err != nil {
		return c.refused(err, "to have it run again, forget it with "+c.suggest("delete", "--force", "--reason", "…"))
	}
	return printTable(term.out, res.GetRecord())
}

func (c *resolveCmd) words() string {
	switch {
	case c.Completed:
		return "COMPLETED"
	case c.Release:
		return "RELEASED, to be run again"
	default:
		return fmt.Sprintf("FAILED, %s: %s", c.Failed.code, printable(c.Failed.message))
	}
}

func (c *resolveCmd) resolution(term console, req *pb.ResolveRecordRequest) error {
	switch {
	case c.Completed:
		body, err := c.body(term.in)
		if err != nil {
			return err
		}
		req.Resolution = &pb.ResolveRecordRequest_Completed{Completed: &pb.StoredResponse{
			Body: body, Omitted: c.Response == "", ContentType: c.ContentType, StatusCode: c.StatusCode, Resource: c.Resource,
		}}
	case c.Release:
		req.Resolution = &pb.ResolveRecordRequest_Release_{Release: &pb.ResolveRecordRequest_Release{}}
	default:
		req.Resolution = &pb.ResolveRecordRequest_Failed{Failed: &pb.StoredStatus{Code: int32(c.Failed.code), Message: c.Failed.message}}
	}
	return nil
}

func (c *resolveCmd) body(in io.Reader) ([]byte, error) {
	var body []byte
	var err error
	switch c.Response {
	case "":
	case "-":
		body, err = io.ReadAll(in)
	default:
		body, err = os.ReadFile(c.Response)
	}
	if err != nil {
		return nil, fmt.Errorf("--response: %w", err)
	}
	return body, nil
}

// failure is a flag of two words: a gRPC code, by name or number, and a message.
type failure struct {
	code    codes.Code
	message string
}

// Decode implements kong.MapperValue.
func (f *failure) Decode(ctx *kong.DecodeContext) error {
	var code string
	if err := ctx.Scan.PopValueInto("code", &code); err != nil {
		return err
	}
	if _, err := strconv.Atoi(code); err != nil {
		code = strconv.Quote(strings.ToUpper(code))
	}
	if err := f.code.UnmarshalJSON([]byte(code)); err != nil || f.code == codes.OK {
		return fmt.Errorf("%s is not a gRPC code of a failure: 1 to 16, or a name as FAILED_PRECONDITION", code)
	}
	if err := ctx.Scan.PopValueInto("message", &f.message); err != nil {
		return fmt.Errorf("%w: give a message behind the code", err)
	}
	return nil
}
