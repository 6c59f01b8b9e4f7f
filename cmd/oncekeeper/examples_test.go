package main

import (
	"context"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// example is a line of a command's help that is to be typed as it stands.
var example = regexp.MustCompile(`(?m)^ +(oncekeeper .*)$`)

// examplePlace is where examples are run: a directory with the files that they
// name, a service, and the databases, which they find by the environment.
type examplePlace struct {
	keeper   pb.IdempotencyServiceClient
	business *business
	probes   string // the address of that service's port for probes
}

// onPebbleAndPostgres gives a place beside a service on each store. What the
// examples start has a store of its own of the same kind, since a directory is one
// process's.
func onPebbleAndPostgres(t *testing.T, test func(t *testing.T, kind string, p examplePlace)) {
	for kind, dialect := range map[string]string{"pebble": "sqlite", "postgres": "postgres"} {
		t.Run(kind, func(t *testing.T) {
			store, own := "pebble:"+t.TempDir(), "pebble:"+t.TempDir()
			if kind == "postgres" {
				store, own = pgtest.Database(t), pgtest.Database(t)
			}
			address, log := serving(t, "--store", store, "--backup-dir", t.TempDir(), "--http", "127.0.0.1:0")
			t.Chdir(t.TempDir())
			write(t, "policy.yaml", goodPolicy)
			write(t, "principals.yaml", goodPrincipals)
			for name, value := range map[string]string{
				"ADDRESS": address, "STORE": own, "LISTEN": "127.0.0.1:0", "LOG_FORMAT": "json", "HTTP": "127.0.0.1:0",
			} {
				t.Setenv("ONCEKEEPER_"+name, value)
			}
			probes := log.await(t, "probes and metrics")["http"].(string)
			test(t, kind, examplePlace{dialled(t, address), newBusiness(t, dialect), probes})
		})
	}
}

// refusedOn is what a kind of store has no use for, and what is said then.
var refusedOn = map[string]map[string]string{
	"pebble":   {"migrate up": "other stores have no schema", "migrate status": "other stores have no schema"},
	"postgres": {"backup": "pg_dump"},
}

// TestEveryExampleOfEveryHelpDoesWhatItSays takes the commands from the command line
// itself: one that comes later is here by itself, and needs an example.
func TestEveryExampleOfEveryHelpDoesWhatItSays(t *testing.T) {
	commands := leaves(t)
	onPebbleAndPostgres(t, func(t *testing.T, kind string, p examplePlace) {
		for _, name := range commands {
			code, help, stderr := command(t, append(strings.Fields(name), "--help")...)
			if code != 0 {
				t.Fatalf("%s --help exits with %d: %s", name, code, stderr)
			}
			found := example.FindAllStringSubmatch(help, -1)
			if len(found) == 0 {
				t.Errorf("the help of %s has no example:\n%s", name, help)
			}
			for _, line := range found {
				if !strings.HasPrefix(line[1], "oncekeeper "+name) {
					t.Errorf("an example of %s is of another command: %s", name, line[1])
				}
				code, stdout, stderr := p.run(t, name, words(line[1])[1:])
				if says := refusedOn[kind][name]; says != "" {
					if code == 0 || !strings.Contains(stderr, says) {
						t.Errorf("%s exits with %d: %s, want it refused: %s", line[1], code, stderr, says)
					}
				} else if code != 0 || stdout == "" {
					t.Errorf("%s exits with %d: %s%s", line[1], code, stdout, stderr)
				}
			}
		}
	})
}

// leaves gives every command that a user may type, by its words.
func leaves(t *testing.T) (names []string) {
	t.Helper()
	parser, err := kong.New(&cli{}, commandLine()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		words := []string{leaf.Name}
		for at := leaf.Parent; at != nil && at.Type == kong.CommandNode; at = at.Parent {
			words = append([]string{at.Name}, words...)
		}
		names = append(names, strings.Join(words, " "))
	}
	if len(names) < 10 {
		t.Fatalf("the commands are %v: some are missing", names)
	}
	return names
}

// run runs a command where the key that examples name is held, and has a receipt.
func (p examplePlace) run(t *testing.T, name string, args []string) (code int, stdout, stderr string) {
	t.Helper()
	command(t, "delete", "demo", "greet", "1", "--force", "--reason", "the last example", "--yes")
	held(t, p.keeper, "greet", "1")
	p.business.apply(t, "1")
	switch name {
	case "serve":
		return served(t, args)
	case "ready": // serve's port is the environment's, and any one
		args = append(args, "--http", p.probes)
	}
	return command(t, args...)
}

// served has a service stop once it listens; its log stands for what it prints.
func served(t *testing.T, args []string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log := &lines{grown: make(chan struct{}, 1)}
	exit := make(chan int, 1)
	go func() { exit <- run(ctx, args, console{out: io.Discard, err: log}) }()
	log.await(t, "listening")
	stop()
	return <-exit, log.String(), ""
}
