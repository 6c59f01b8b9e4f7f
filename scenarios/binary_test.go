package scenarios

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// clientRole is set in a copy of this test binary that is a client process.
const clientRole = "ONCEKEEPER_SCENARIO_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(clientRole) != "" {
		os.Exit(raceAsClient())
	}
	os.Exit(m.Run())
}

// binary builds cmd/oncekeeper once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "oncekeeper-scenarios-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "oncekeeper")
	out, err := exec.Command("go", "build", "-o", path, "../cmd/oncekeeper").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the binary: %w: %s", err, out)
	}
	return path, nil
})

// process is a running serve.
type process struct {
	cmd    *exec.Cmd
	exited chan error
}

// serve starts the binary on a store and an address, and returns when it listens.
func serve(t *testing.T, store, address string, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"serve", "--store", store, "--listen", address}, args...)...)
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, exited: make(chan error, 1)}
	listening := make(chan bool, 1)
	go func() {
		var said strings.Builder
		for lines := bufio.NewScanner(logs); lines.Scan(); {
			var line struct{ Msg string }
			_ = json.Unmarshal(lines.Bytes(), &line)
			if line.Msg == "listening" {
				listening <- true
			}
			said.WriteString(lines.Text() + "\n")
		}
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, said.String())
		}
		p.exited <- err
		close(listening)
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	select {
	case ok := <-listening:
		if !ok {
			t.Fatalf("serve ended before it listened: %v", <-p.exited)
		}
	case <-time.After(time.Minute):
		t.Fatal("serve does not listen after a minute")
	}
	return p
}

// kill is kill -9; it returns when the process is gone.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("kill: %v", err)
	}
	<-p.exited
}

// stop is SIGTERM; serve must end well.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("signal: %v", err)
	}
	if err := <-p.exited; err != nil {
		t.Errorf("serve did not end well: %v", err)
	}
}

// freeAddress gives a loopback address that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	return lis.Addr().String()
}

// dial connects to address and comes back quickly after a kill.
func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
}
