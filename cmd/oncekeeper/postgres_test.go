package main

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

func TestServeNamesTheCommandThatMendsAnOldSchemaAndServesBehindIt(t *testing.T) {
	address := pgtest.EmptyDatabase(t)
	t.Setenv("ONCEKEEPER_STORE", address)
	code, _, stderr := command(t, "serve", "--listen", "127.0.0.1:0")
	if code != exitFailed || !strings.Contains(stderr, "run oncekeeper migrate up") {
		t.Errorf("serve on no schema exits with %d: %s", code, stderr)
	}
	if code, stdout, stderr := command(t, "migrate", "status"); code != 0 || !strings.Contains(stdout, "not yet") {
		t.Errorf("status exits with %d: %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := command(t, "migrate", "up"); code != 0 || !strings.Contains(stdout, "took 00002_breaking_steps.sql") {
		t.Errorf("up exits with %d: %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := command(t, "migrate", "up"); code != 0 || strings.Contains(stdout, "took") {
		t.Errorf("up again exits with %d: %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := command(t, "migrate", "status"); code != 0 || strings.Contains(stdout, "not yet") {
		t.Errorf("status exits with %d: %s%s", code, stdout, stderr)
	}
	one, _ := serving(t)
	two, _ := serving(t)
	key := &pb.Key{Tenant: "acme", Operation: "pay", Id: "1"}
	if _, err := dialled(t, one).Begin(t.Context(), &pb.BeginRequest{Key: key, Holder: "pod-7"}); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := command(t, "get", "--address", two, "acme", "pay", "1"); code != 0 || !strings.Contains(stdout, "pod-7") {
		t.Errorf("the other server shows %s (exit %d, %s)", stdout, code, stderr)
	}
}

func dialled(t *testing.T, address string) pb.IdempotencyServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewIdempotencyServiceClient(conn)
}

func TestServeMigratesWhereItIsToldTo(t *testing.T) {
	_, log := serving(t, "--store", pgtest.EmptyDatabase(t), "--migrate")
	log.await(t, "migrated")
	log.await(t, "records lie in Postgres at ")
}

func TestOnlyPostgresHasASchema(t *testing.T) {
	code, _, stderr := command(t, "migrate", "up", "--store", "pebble:dir")
	if code != exitUsage || !strings.Contains(stderr, "postgres://") {
		t.Errorf("migrate on pebble exits with %d: %s", code, stderr)
	}
}

func TestServeSaysWhichPlanItsStatementsGoByAndWhy(t *testing.T) {
	store := pgtest.Database(t)
	_, log := serving(t, "--store", store)
	if line := log.await(t, "statements go by plan many"); !strings.Contains(line["because"].(string), "one node") {
		t.Errorf("the reason is %q", line["because"])
	}
	t.Setenv("ONCEKEEPER_POSTGRES_PLAN", "single")
	address, log := serving(t, "--store", store)
	log.await(t, "statements go by plan single")
	key := &pb.Key{Tenant: "acme", Operation: "pay", Id: "1"}
	if _, err := dialled(t, address).Begin(t.Context(), &pb.BeginRequest{Key: key}); err != nil {
		t.Error(err)
	}
	if code, _, stderr := command(t, "serve", "--postgres-plan", "double"); code != exitUsage || !strings.Contains(stderr, "single") {
		t.Errorf("a plan that is none: exit %d: %s", code, stderr)
	}
}

func TestMigrateSaysThatCitusCanDistributeAndIsRefusedWhereThereIsNone(t *testing.T) {
	address := pgtest.EmptyDatabase(t)
	t.Setenv("ONCEKEEPER_STORE", address)
	code, _, stderr := command(t, "migrate", "up", "--distribute")
	if code != exitFailed || !strings.Contains(stderr, "CREATE EXTENSION citus") {
		t.Errorf("without Citus it exits with %d: %s", code, stderr)
	}
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	// What is called of Citus, in its place.
	_, err = conn.Exec(t.Context(), `
		CREATE TABLE pg_dist_partition (logicalrelid regclass PRIMARY KEY, partmethod "char");
		CREATE FUNCTION create_distributed_table(name text, by text) RETURNS void LANGUAGE sql AS
			$$ INSERT INTO pg_dist_partition SELECT name::regclass, 'h' WHERE by = 'id' $$;
		CREATE FUNCTION truncate_local_data_after_distributing_table(name regclass) RETURNS void LANGUAGE sql AS ''`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args      []string
		says, not string
	}{
		{[]string{"migrate", "up"}, "migrate up --distribute", "took"},
		{[]string{"migrate", "up", "--distribute"}, "distributed the records", "already"},
		{[]string{"migrate", "up", "--distribute"}, "distributed already", "start servers"},
		{[]string{"migrate", "up"}, "up to date", "--distribute"},
	} {
		if code, stdout, stderr := command(t, c.args...); code != 0 || !strings.Contains(stdout, c.says) || strings.Contains(stdout, c.not) {
			t.Errorf("%v exits with %d: %s%s", c.args, code, stdout, stderr)
		}
	}
}
