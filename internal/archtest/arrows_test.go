// Package archtest holds the arrows between rooms: which package may import
// which. It reads what the go command says of the module and the table below,
// and knows nothing of what the rooms do. It consists of tests alone.
package archtest

import "testing"

// rooms is the one place where the arrows are written down. A package belongs to
// the row with the longest path that fits it.
//
// Files that end in _test.go are free to import anything: an external test of a
// rule may well need a store.
var rooms = []room{
	// The vocabulary, and what stands on it alone. The standard library is open to
	// every room, so these import nothing else.
	{path: "."},
	{path: "./clock"},
	{path: "./lifecycle", may: []string{"."}},
	{
		path:  "./lifecycle/lifecycletest",
		may:   []string{".", "./lifecycle"},
		third: []string{"github.com/google/go-cmp/...", "pgregory.net/rapid"},
		tests: true,
	},

	// The contract, and its translation into the vocabulary.
	{path: "./proto/...", third: []string{protobuf, grpc}},
	{path: "./internal/wire", may: []string{".", "./proto/..."}, third: []string{protobuf, grpc, statusDetails}},

	// Numbers: counted by atomics where it is hot, and shown where somebody asks.
	{path: "./internal/tally"},
	{path: "./metrics", may: []string{"./internal/tally"}, third: []string{prometheus}},
	{path: "./metrics/storemetrics", may: []string{"./metrics", "./storage/pebble", "./storage/postgres"}, third: []string{prometheus}},

	// Stores keep records and know no wire: neither the contract nor grpc.
	{path: "./storage", may: []string{".", "./lifecycle", "./clock"}},
	{path: "./storage/internal/...", may: []string{"."}, third: []string{protobuf}},
	{
		path:  "./storage/storagetest/...",
		may:   []string{".", "./lifecycle", "./lifecycle/lifecycletest", "./clock", "./storage"},
		third: []string{anything},
		never: []string{"./proto/...", grpc},
		tests: true,
	},
	{
		path:  "./storage/pebble/...",
		may:   []string{".", "./lifecycle", "./clock", "./storage", "./storage/internal/...", "./internal/tally"},
		third: []string{"github.com/cockroachdb/pebble/..."},
		never: []string{"./proto/..."},
	},

	{
		path:  "./storage/postgres/...",
		may:   []string{".", "./lifecycle", "./clock", "./storage", "./storage/internal/...", "./migrations", "./internal/tally"},
		third: []string{"github.com/jackc/pgx/..."},
		never: []string{"./proto/...", grpc, prometheus},
	},
	{path: "./storage/postgres/pgtest", may: []string{"./migrations"}, third: []string{"github.com/jackc/pgx/..."}, tests: true},

	// The schema of a store, which no record is known in.
	{path: "./migrations", third: []string{"github.com/pressly/goose/...", "github.com/jackc/pgx/..."}},

	// The server is given its store, and never names one; and it is given who makes its
	// spans, and never names where they go.
	{
		path:  "./server/...",
		may:   []string{".", "./lifecycle", "./clock", "./storage", "./proto/...", "./internal/wire", "./metrics", "./internal/tally", "./server/auth"},
		third: []string{anything},
		never: append([]string{telemetrySDK, telemetryExport}, databases...),
	},
	// Who may do what is decided with no record at hand.
	{
		path:  "./server/auth",
		may:   []string{".", "./proto/...", "./server/internal/rulefile"},
		third: []string{grpc, "go.yaml.in/yaml/...", "github.com/go-jose/go-jose/..."},
		never: append([]string{"./storage/...", "./lifecycle/..."}, databases...),
	},

	// A caller's program links the client, so the client brings in no server, no
	// store and no database. A receipt is written in the caller's own database, so
	// the packages below client/receipt, and they alone, may know drivers. Metrics are
	// for who asks for them, in a package of their own.
	{path: "./client/...", may: clientMay, third: []string{anything}, never: append(clientNever, databases...)},
	{
		path:  "./client/clientmetrics",
		may:   append(clientMay, "./metrics"),
		third: []string{prometheus},
		never: append([]string{"./server/...", "./storage/..."}, databases...),
	},
	// So are traces, by the API of OpenTelemetry alone: no SDK, and nothing that sends.
	{
		path:  "./client/clienttrace",
		may:   clientMay,
		third: telemetryAPI,
		never: append([]string{"./server/...", "./storage/...", prometheus, telemetrySDK, telemetryExport}, databases...),
	},
	{path: "./client/receipt/...", may: clientMay, third: []string{anything}, never: clientNever},
	{path: "./client/receipt/receipttest", may: clientMay, third: []string{anything}, never: append(clientNever, databases...), tests: true},
	{path: "./client/receipt", may: clientMay, third: []string{anything}, never: append(clientNever, databases...)},

	// Tests of the built binary, and nothing to import.
	{path: "./scenarios"},
	{path: "./internal/served", third: []string{grpc}, tests: true},

	// The proof drives servers from outside, by the contract; its model is the rules
	// themselves. What leaves a rule out of a store is linked by its own command alone.
	{path: "./proof"},
	{path: "./proof/internal/history", may: []string{".", "./lifecycle"}},
	{path: "./proof/internal/invariant", may: []string{".", "./lifecycle", "./proof/internal/history"}},
	{path: "./proof/internal/model", may: []string{".", "./lifecycle", "./server/policy", "./proof/internal/history"}, third: []string{"github.com/anishathalye/porcupine"}},
	{
		path:  "./proof/internal/drive",
		may:   []string{".", "./lifecycle", "./server/policy", "./proto/...", "./internal/wire", "./proof/internal/history"},
		third: []string{grpc, protobuf},
	},
	{
		path:  "./proof/internal/stage",
		may:   []string{".", "./internal/served", "./storage/postgres/pgtest"},
		third: []string{grpc, "github.com/Shopify/toxiproxy/...", "github.com/rs/zerolog"},
		tests: true,
	},
	{path: "./proof/internal/plant", may: []string{".", "./lifecycle", "./storage"}, third: []string{"github.com/cockroachdb/pebble/v2/vfs"}},
	{path: "./proof/internal/staged", may: []string{"./clock", "./storage", "./storage/pebble", "./storage/postgres", "./server", "./proof/internal/plant"}},

	// The service in a caller's process, which links the one store that it is given.
	{
		path:  "./inprocess",
		may:   []string{".", "./clock", "./storage", "./server/...", "./client/..."},
		third: []string{grpc},
		never: databases,
	},

	// Loads on a service, by what its callers use; the plain alternative is given.
	{
		path:  "./internal/bench",
		may:   []string{".", "./clock", "./proto/...", "./client/..."},
		third: []string{grpc, protobuf, "golang.org/x/sync/errgroup"},
		never: databases,
	},

	{path: "./internal/plots", may: []string{"./internal/bench"}},

	// Whatever puts the rooms together.
	{path: "./oncetest/...", may: []string{"./..."}, third: []string{anything}, never: []string{"./cmd/..."}, tests: true},
	{path: "./cmd/...", may: []string{"./..."}, third: []string{anything}},
	{path: "./examples/...", may: []string{"./..."}, third: []string{anything}},
}

const (
	grpc          = "google.golang.org/grpc/..."
	protobuf      = "google.golang.org/protobuf/..."
	prometheus    = "github.com/prometheus/..."
	statusDetails = "google.golang.org/genproto/googleapis/rpc/..."

	telemetry       = "go.opentelemetry.io/..."
	telemetrySDK    = "go.opentelemetry.io/otel/sdk/..."
	telemetryExport = "go.opentelemetry.io/otel/exporters/..."
)

// telemetryAPI is what makes spans of a provider that is given.
var telemetryAPI = []string{
	"go.opentelemetry.io/otel/attribute",
	"go.opentelemetry.io/otel/codes",
	"go.opentelemetry.io/otel/propagation",
	"go.opentelemetry.io/otel/trace/...",
}

var clientNever = []string{"./server/...", "./storage/...", prometheus, telemetry}

var clientMay = []string{".", "./clock", "./proto/...", "./internal/wire", "./client/..."}

// databases are the engines and drivers that a program links by importing them.
// database/sql is none: it has no driver of its own.
var databases = []string{
	"./storage/pebble/...",
	"./storage/postgres/...",
	"github.com/cockroachdb/pebble/...",
	"github.com/go-sql-driver/mysql/...",
	"github.com/jackc/pgx/...",
	"github.com/lib/pq/...",
	"github.com/mattn/go-sqlite3/...",
	"github.com/microsoft/go-mssqldb/...",
	"github.com/pressly/goose/...",
	"go.etcd.io/bbolt/...",
	"modernc.org/sqlite/...",
}

func TestImportsFollowTheArrowsBetweenRooms(t *testing.T) {
	for _, broken := range judge(rooms, load(t)) {
		t.Error(broken)
	}
}
