// Command oncekeeper serves Oncekeeper and is its operators' hand. It owns flags
// and wiring: which store, which address, what is printed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// The exit codes, which --help tells.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 4
)

// cli declares each setting once: flag, environment variable, default, help.
type cli struct {
	Serve      serveCmd      `cmd:"" help:"Run the service."`
	Ready      readyCmd      `cmd:"" help:"Ask whether a service can answer calls: for health checks."`
	Migrate    migrateCmd    `cmd:"" help:"Bring a database's schema up to date, or show how far it is."`
	Get        getCmd        `cmd:"" help:"Show what is known of a key."`
	Resolve    resolveCmd    `cmd:"" help:"Decide a key that no attempt will settle."`
	Delete     deleteCmd     `cmd:"" help:"Forget what is known of a key."`
	List       listCmd       `cmd:"" help:"List keys and their states."`
	Sweep      sweepCmd      `cmd:"" help:"Delete records whose retention has passed."`
	Policy     policyCmd     `cmd:"" help:"Check or explain a policy file: what operations are given."`
	Backup     backupCmd     `cmd:"" help:"Copy the embedded store of a service while it serves."`
	Receipt    receiptCmd    `cmd:"" help:"Look after receipts, which lie in a database of your own."`
	Token      tokenCmd      `cmd:"" help:"Make tokens for those who call."`
	Completion completionCmd `cmd:"" help:"Print what has a shell complete these commands."`
	Complete   completeCmd   `cmd:"" hidden:"" help:"Print what may be typed next."`
	Bench      benchCmd      `cmd:"" help:"Measure what a guarded call costs, as ratios."`
	Growth     growthCmd     `cmd:"" help:"Measure how the cost of a call grows with keys, responses, callers or tenants."`
	Version    versionCmd    `cmd:"" help:"Show the version."`

	Log logFlags `embed:"" prefix:"log-"`
}

// Help is told by --help.
func (cli) Help() string {
	return fmt.Sprintf("Exit codes: 0 done; %d it failed, and says why; %d the command line is wrong; %d there is no such record.", exitFailed, exitUsage, exitNotFound)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// A second signal is not caught: it ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], console{in: os.Stdin, out: os.Stdout, err: os.Stderr, asks: isTerminal(os.Stdin), shows: isTerminal(os.Stderr)}))
}

// console is what a command reads and where it writes.
type console struct {
	in       io.Reader
	out, err io.Writer
	// asks: who runs the command is there to answer.
	asks bool
	// shows: err is a terminal, where a line may be drawn over.
	shows bool
}

// run is main with nothing of the process in it; it gives the exit code.
func run(ctx context.Context, args []string, term console) int {
	var c cli
	exited := -1
	parser, err := kong.New(&c, append(commandLine(),
		kong.Writers(term.out, term.err),
		kong.Exit(func(code int) { exited = code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(term, &c.Log),
	)...)
	if err != nil {
		_, _ = fmt.Fprintln(term.err, "oncekeeper:", err)
		return exitFailed
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 { // --help was answered
		return exited
	}
	if err != nil {
		_, _ = fmt.Fprintf(term.err, "oncekeeper: %v\nTry: oncekeeper --help\n", err)
		return exitUsage
	}
	if err := parsed.Run(); err != nil {
		_, _ = fmt.Fprintln(term.err, "oncekeeper:", err)
		if coded := (*codedError)(nil); errors.As(err, &coded) {
			return coded.code
		}
		return exitFailed
	}
	return 0
}

// commandLine is how the command line is read.
func commandLine() []kong.Option {
	return []kong.Option{
		kong.Name("oncekeeper"),
		kong.Description("An operation happens once, however often it is asked for."),
		kong.UsageOnError(),
		kong.Vars{"address": defaultAddress, "timeout": "10s"},
	}
}

// codedError ends the process with a code of its own.
type codedError struct {
	error
	code int
}

func (e *codedError) Unwrap() error { return e.error }
