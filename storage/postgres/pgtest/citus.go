package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper/migrations"
)

// workersVariable names the workers of a Citus cluster, as host:port with commas
// between, whose coordinator addressVariable names. They take the same user and
// password. Then each test's database is one of that cluster, with its records
// distributed.
const workersVariable = "ONCEKEEPER_TEST_CITUS"

// Distributed says whether the databases of tests are of a Citus cluster: there a
// table takes no triggers, and who waits on a worker is seen by Citus alone.
func Distributed() bool { return len(workers()) > 0 }

func workers() []string {
	return strings.FieldsFunc(os.Getenv(workersVariable), func(r rune) bool { return r == ',' || r == ' ' })
}

// createDistributed gives a database of the cluster, empty but for Citus.
func createDistributed(t testing.TB, coordinator string) string {
	t.Helper()
	database := name("test")
	nodes := []string{coordinator}
	for _, worker := range workers() {
		u, err := url.Parse(coordinator)
		if err != nil {
			t.Fatal(err)
		}
		u.Host = worker
		nodes = append(nodes, u.String())
	}
	t.Cleanup(func() {
		for _, node := range nodes {
			if err := run(node, "DROP DATABASE IF EXISTS "+database+" WITH (FORCE)"); err != nil {
				t.Error(err)
			}
		}
	})
	for _, node := range nodes {
		err := run(node, "CREATE DATABASE "+database+" ENCODING 'UTF8' TEMPLATE template0")
		if err == nil {
			err = run(Beside(node, database), "CREATE EXTENSION citus")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var join []string
	for i, node := range nodes {
		u, _ := url.Parse(node) // it was parsed before
		host, port, err := net.SplitHostPort(u.Host)
		if err != nil {
			t.Fatalf("the nodes of Citus are named by host:port, and %s is not: %v", u.Redacted(), err)
		}
		what := "citus_add_node"
		if i == 0 {
			what = "citus_set_coordinator_host"
		}
		join = append(join, fmt.Sprintf("SELECT %s('%s', %s)", what, host, port))
	}
	address := Beside(coordinator, database)
	if err := run(address, join...); err != nil {
		t.Fatal(err)
	}
	return address
}

func distribute(address string) error {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return err
	}
	_, err = migrations.Distribute(context.Background(), db)
	return errors.Join(err, db.Close())
}
