package business

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
	"github.com/oncekeeper/oncekeeper/inprocess"
	"github.com/oncekeeper/oncekeeper/internal/served"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
)

// childRole is set in a copy of this test binary that is a process of the business.
const childRole = "ONCEKEEPER_SCENARIO_BUSINESS"

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := beChild(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// step is where a child is with its charge. It says so and goes on, but at the one
// that its job names it stays until it is told to go on, or is killed.
type step string

const (
	granted       step = "granted"
	inTransaction step = "in the transaction" // the charge is made, and not committed
	committed     step = "committed"
	completing    step = "sending Complete"
	completed     step = "Complete was answered"
	answered      step = "the answer is there" // and nobody was told yet
)

// job is what a child does: it charges once for Request, and prints the answer.
type job struct {
	// Keeper is an address of serve, or of a database that this process opens
	// Oncekeeper on.
	Keeper string
	Shop   string
	Level  sql.IsolationLevel
	// Request and Amount are what is charged; Lease is the attempt's.
	Request string
	Amount  int64
	Lease   time.Duration
	StopAt  step
	// Naive: charged without asking anyone.
	Naive bool
	// Broker: what is charged is a delivery of it, and not Request.
	Broker string
}

// said is a line that a child prints.
type said struct {
	Step   step   `json:",omitempty"`
	Answer string `json:",omitempty"`
	Err    string `json:",omitempty"`
}

func say(s said) { _ = json.NewEncoder(os.Stdout).Encode(s) }

func beChild(role string) error {
	var j job
	if err := json.Unmarshal([]byte(role), &j); err != nil {
		return err
	}
	goOn := bufio.NewScanner(os.Stdin)
	reach := func(s step) {
		say(said{Step: s})
		if s == j.StopAt {
			goOn.Scan()
		}
	}
	s, err := connectShop(j.Shop, j.Level)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if j.Broker == "" && j.Naive {
		answer, err := charge(ctx, s.db, j.Request, j.Amount)
		if err == nil {
			reach(committed)
			say(said{Answer: answer})
		}
		return err
	}
	conn, err := reachKeeper(ctx, j.Keeper, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if !strings.HasSuffix(method, "/Complete") {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		reach(completing)
		defer reach(completed)
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	if err != nil {
		return err
	}
	if j.Broker != "" {
		return consume(ctx, j, s, client.New(conn), reach)
	}
	answer, err := client.Do(ctx, client.New(conn), key(j.Request), func(ctx context.Context, _ *client.Attempt) (string, error) {
		reach(granted)
		answer, err := sqlreceipt.InTx(ctx, s.receipts, func(ctx context.Context, tx *sql.Tx) (string, error) {
			answer, err := charge(ctx, tx, j.Request, j.Amount)
			if err == nil {
				reach(inTransaction)
			}
			return answer, err
		})
		if err == nil {
			reach(committed)
		}
		return answer, err
	}, client.WithReceipts(s.receipts), client.WithLease(j.Lease))
	if err != nil {
		say(said{Err: err.Error()})
		return nil
	}
	reach(answered)
	say(said{Answer: answer})
	return nil
}

// reachKeeper connects to Oncekeeper, or opens it inside this process.
func reachKeeper(ctx context.Context, keeper string, between grpc.UnaryClientInterceptor) (*grpc.ClientConn, error) {
	if !strings.HasPrefix(keeper, "postgres") {
		return served.Dial(keeper, grpc.WithUnaryInterceptor(between))
	}
	store, err := postgres.Open(ctx, postgres.Config{DSN: keeper, MaxConns: 4})
	if err != nil {
		return nil, err
	}
	inside, err := inprocess.Open(inprocess.Config{Store: store})
	if err != nil {
		return nil, err
	}
	return inside.Dial(grpc.WithUnaryInterceptor(between))
}

// child is a running process of the business.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     *os.File
	lines  chan said
	errors *strings.Builder
	once   sync.Once
}

// startChild runs j in a process of its own, which is gone when the test ends.
func startChild(t *testing.T, j job) *child {
	t.Helper()
	role, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, in: write, lines: make(chan said, 16), errors: new(strings.Builder)}
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append(os.Environ(), childRole+"="+string(role))
	c.cmd.Stdin, c.cmd.Stderr = read, c.errors
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	go func() {
		defer close(c.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var s said
			if json.Unmarshal(lines.Bytes(), &s) == nil {
				c.lines <- s
			}
		}
	}()
	t.Cleanup(c.kill)
	return c
}

// reaches waits until the child says that it is at s.
func (c *child) reaches(s step) {
	c.t.Helper()
	c.until(func(line said) bool { return line.Step == s }, "reaches "+string(s))
}

// answer waits for what the child was answered.
func (c *child) answer() (answer string) {
	c.t.Helper()
	c.until(func(line said) bool { answer = line.Answer; return answer != "" }, "is answered")
	return answer
}

func (c *child) until(found func(said) bool, what string) {
	c.t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		select {
		case line, open := <-c.lines:
			switch {
			case !open:
				_ = c.cmd.Wait()
				c.t.Fatalf("the process ends before it %s: %s", what, c.errors.String())
			case line.Err != "":
				c.t.Fatalf("the process is refused before it %s: %s", what, line.Err)
			case found(line):
				return
			}
		case <-limit:
			c.t.Fatalf("the process does not say in two minutes that it %s", what)
		}
	}
}

// kill is kill -9.
func (c *child) kill() {
	c.once.Do(func() {
		_ = c.cmd.Process.Kill()
		for range c.lines {
		}
		_ = c.cmd.Wait()
		_ = c.in.Close()
	})
}

// freeze stops the whole process, its renewals too, as a hypervisor does.
func (c *child) freeze() { c.signal(syscall.SIGSTOP) }

// thaw lets it run again, and go on from where it stopped.
func (c *child) thaw() {
	c.t.Helper()
	c.signal(syscall.SIGCONT)
	if _, err := c.in.WriteString("\n"); err != nil {
		c.t.Error(err)
	}
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}
