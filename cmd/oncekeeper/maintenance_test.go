package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// onBothClocks runs a test of commands against a service on each kind of store,
// whose clock the test moves.
func onBothClocks(t *testing.T, test func(t *testing.T, keeper pb.IdempotencyServiceClient, advance func(time.Duration))) {
	t.Run("memory", func(t *testing.T) {
		clk := clock.NewManual(epoch)
		store, err := pebble.Open(pebble.Config{Clock: clk})
		if err != nil {
			t.Fatal(err)
		}
		test(t, serveStore(t, store), clk.Advance)
	})
	t.Run("postgres", func(t *testing.T) {
		address := pgtest.Database(t)
		clk := pgtest.StopClock(t, address, epoch)
		store, err := postgres.Open(t.Context(), postgres.Config{DSN: address})
		if err != nil {
			t.Fatal(err)
		}
		test(t, serveStore(t, store), clk.Advance)
	})
}

// serveStore serves store until the test ends, where commands find it.
func serveStore(t *testing.T, store storage.Store) pb.IdempotencyServiceClient {
	t.Helper()
	srv, err := server.New(server.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	t.Setenv("ONCEKEEPER_ADDRESS", lis.Addr().String())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(srv.Shutdown(ctx), <-served, store.Close()); err != nil {
			t.Error(err)
		}
	})
	return dialled(t, lis.Addr().String())
}

func done(t *testing.T, keeper pb.IdempotencyServiceClient, tenant, operation, id string) {
	t.Helper()
	key := &pb.Key{Tenant: tenant, Operation: operation, Id: id}
	begun, err := keeper.Begin(t.Context(), &pb.BeginRequest{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	_, err = keeper.Complete(t.Context(), &pb.CompleteRequest{
		Key: key, FencingToken: begun.GetGrant().GetFencingToken(), Response: &pb.StoredResponse{Body: []byte("paid")},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rows gives the states and ids that a table lists.
func rows(table string) (rows []string) {
	for i, line := range strings.Split(strings.TrimRight(table, "\n"), "\n") {
		if columns := strings.Fields(line); i > 0 && len(columns) > 3 {
			rows = append(rows, columns[0]+" "+columns[3])
		}
	}
	return rows
}

func TestListPrintsATableNarrowedByItsFlags(t *testing.T) {
	onBothClocks(t, func(t *testing.T, keeper pb.IdempotencyServiceClient, advance func(time.Duration)) {
		done(t, keeper, "acme", "pay", "done-1")
		held(t, keeper, "pay", "held-1")
		advance(time.Minute)
		held(t, keeper, "greet", "held-0")
		for want, flags := range map[string][]string{
			"[COMPLETED done-1 UNRESOLVED held-0 UNRESOLVED held-1]": nil,
			"[COMPLETED done-1]":                    {"--tenant", "acme"},
			"[UNRESOLVED held-1]":                   {"--tenant", "demo", "--operation", "pay", "--id-prefix", "held-"},
			"[UNRESOLVED held-0 UNRESOLVED held-1]": {"--state", "unresolved,failed"},
			"[UNRESOLVED held-1 UNRESOLVED held-0]": {"--state", "unresolved", "--oldest-first"},
			"[UNRESOLVED held-0]":                   {"--created-after", "2030-01-02T03:04:05Z"},
			"[COMPLETED done-1 UNRESOLVED held-1]":  {"--created-before", "2030-01-02T03:05:05Z"},
			"[]":                                    {"--operation", "refund"},
		} {
			code, stdout, stderr := command(t, append([]string{"list"}, flags...)...)
			if got := fmt.Sprint(rows(stdout)); code != 0 || got != want || !strings.HasPrefix(stdout, "STATE") {
				t.Errorf("list %v exits with %d and prints %s%s, want the rows %s", flags, code, stdout, stderr, want)
			}
		}
	})
}

func TestListGoesOnWhereItStopped(t *testing.T) {
	onBothClocks(t, func(t *testing.T, keeper pb.IdempotencyServiceClient, _ func(time.Duration)) {
		for i := range 5 {
			done(t, keeper, "acme", "pay", fmt.Sprint(i))
		}
		_, stdout, stderr := command(t, "list", "--limit", "2")
		if got := fmt.Sprint(rows(stdout)); got != "[COMPLETED 0 COMPLETED 1]" {
			t.Fatalf("two are to be listed: %s", stdout)
		}
		_, token, ok := strings.Cut(strings.TrimSpace(stderr), "--page-token ")
		if !ok {
			t.Fatalf("it does not say how to go on: %s", stderr)
		}
		_, stdout, stderr = command(t, "list", "--limit", "0", "--page-token", token)
		if got := fmt.Sprint(rows(stdout)); got != "[COMPLETED 2 COMPLETED 3 COMPLETED 4]" || stderr != "" {
			t.Errorf("the rest is %s%s", stdout, stderr)
		}
		code, _, stderr := command(t, "list", "--tenant", "acme", "--page-token", token)
		if code != exitFailed || !strings.Contains(stderr, "page_token: was not given for these filters") {
			t.Errorf("with other filters it exits with %d: %s", code, stderr)
		}
	})
}

func TestListPrintsPagesAsJSON(t *testing.T) {
	keeper := atService(t, "memory:")
	for i := range 3 {
		done(t, keeper, "acme", "pay", fmt.Sprint(i))
	}
	type document struct {
		Records []struct {
			State   string
			Outcome struct{ Response struct{ Body []byte } }
		}
		NextPageToken string
	}
	for body, flags := range map[string][]string{"": nil, "paid": {"--full"}} {
		_, stdout, stderr := command(t, append([]string{"list", "--json", "--limit", "2"}, flags...)...)
		var page document
		if err := json.Unmarshal([]byte(stdout), &page); err != nil || len(page.Records) != 2 || page.NextPageToken == "" ||
			page.Records[0].State != "STATE_COMPLETED" || string(page.Records[0].Outcome.Response.Body) != body {
			t.Errorf("with %v it prints %s%s (%v)", flags, stdout, stderr, err)
		}
	}
}

func TestSweepDeletesWhatExpiredAndSaysHowMuch(t *testing.T) {
	onBothClocks(t, func(t *testing.T, keeper pb.IdempotencyServiceClient, advance func(time.Duration)) {
		for i := range 5 {
			done(t, keeper, "acme", "pay", fmt.Sprint(i))
		}
		done(t, keeper, "ac", "pay", "1")
		advance(25 * time.Hour)
		for _, c := range []struct {
			flags []string
			want  string
		}{
			{[]string{"--dry-run"}, "6 to be swept\n"},
			{[]string{"--dry-run", "--max", "2"}, "2 to be swept, and there are more\n"},
			{[]string{"--tenant", "ac"}, "1 swept\n"},
			{[]string{"--operation", "refund"}, "0 swept\n"},
			{[]string{"--max", "2"}, "2 swept, and there are more\n"},
			{[]string{"--json", "--dry-run"}, `{"swept":3,"more":false,"dryRun":true}` + "\n"},
			{[]string{"--json"}, `{"swept":3,"more":false,"dryRun":false}` + "\n"},
			{nil, "0 swept\n"},
		} {
			code, stdout, stderr := command(t, append([]string{"sweep"}, c.flags...)...)
			if code != 0 || stdout != c.want || stderr != "" {
				t.Errorf("sweep %v exits with %d and prints %q, %q; want %q", c.flags, code, stdout, stderr, c.want)
			}
		}
	})
}

func TestMaintenanceTellsWhatIsWrong(t *testing.T) {
	atService(t, "memory:")
	for _, c := range []struct {
		want string
		exit int
		args []string
	}{
		{"--oldest-first goes with --state", exitUsage, []string{"list", "--oldest-first"}},
		{"--full goes with --json", exitUsage, []string{"list", "--full"}},
		{"--limit is below 0", exitUsage, []string{"list", "--limit=-1"}},
		{"must be one of", exitUsage, []string{"list", "--state", "done"}},
		{"name them in states", exitFailed, []string{"list", "--oldest-first", "--state", "failed"}},
		{"tenant: has white space at an end", exitFailed, []string{"list", "--tenant", " a"}},
		{"is the service running there?", exitFailed, []string{"list", "--address", "127.0.0.1:1"}},
		{"--max is below 0", exitUsage, []string{"sweep", "--max=-1"}},
		{"is the service running there?", exitFailed, []string{"sweep", "--address", "127.0.0.1:1"}},
		{"--sweep-grace is at least 10m", exitUsage, []string{"serve", "--sweep-grace", "1m"}},
		{"--sweep-rate at least 1", exitUsage, []string{"serve", "--sweep-rate", "0"}},
	} {
		code, _, stderr := command(t, c.args...)
		if code != c.exit || !strings.Contains(stderr, c.want) {
			t.Errorf("%v exits with %d and says %q; want %d, %q", c.args, code, stderr, c.exit, c.want)
		}
	}
}
