// Package served runs the built binary for tests, as an operator would, and kills
// it as machines do.
package served

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// Binary builds cmd/oncekeeper once for all tests of a process, and gives its path.
var Binary = Builds("cmd/oncekeeper")

// Builds gives a function that builds a command of this module, by its folder, once
// for all tests of a process, and gives its path.
func Builds(folder string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "oncekeeper-scenarios-")
		if err != nil {
			return "", err
		}
		if err := readSources(); err != nil {
			return "", err
		}
		path := filepath.Join(dir, filepath.Base(folder))
		out, err := exec.Command("go", "build", "-o", path, "github.com/oncekeeper/oncekeeper/"+folder).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("building the binary: %w: %s", err, out)
		}
		return path, nil
	})
}

// readSources reads what the binary is made of: what a test reads counts, as what
// it imports does, when go test looks for a result in its cache.
func readSources() error {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("finding the module: %w", err)
	}
	return filepath.WalkDir(filepath.Dir(string(mod)), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !slices.Contains([]string{".go", ".sql", ".mod", ".sum"}, filepath.Ext(path)):
			return nil
		}
		_, err = os.ReadFile(path)
		return err
	})
}

// Process is a running serve.
type Process struct {
	cmd    *exec.Cmd
	exited chan error
	said   said
}

// said is a process's log as it grows.
type said struct {
	mu    sync.Mutex
	text  strings.Builder
	grown chan struct{}
}

func (s *said) add(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.WriteString(line + "\n")
	close(s.grown)
	s.grown = make(chan struct{})
}

func (s *said) now() (text string, grown <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String(), s.grown
}

// PID is the process's own.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Start starts the binary on a store and an address, and returns when it listens.
// It is killed when the test ends.
func Start(t testing.TB, store, address string, args ...string) *Process {
	t.Helper()
	return StartHeard(t, func(string) bool { return false }, store, address, args...)
}

// StartHeard is Start, and has heard take each line that the process says; one that
// it says true of is not kept for the account of how the process ended.
func StartHeard(t testing.TB, heard func(line string) bool, store, address string, args ...string) *Process {
	t.Helper()
	path, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	p, err := run(t, heard, path, append([]string{"serve", "--store", store, "--listen", address, "--http", "off"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Run starts a command that logs as serve does, and returns when it listens. It is
// killed when the test ends.
func Run(t testing.TB, path string, args ...string) *Process {
	t.Helper()
	p, err := Try(t, path, args...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Try is Run for a command that may end before it listens, as one does whose database
// is not there.
func Try(t testing.TB, path string, args ...string) (*Process, error) {
	t.Helper()
	return run(t, func(string) bool { return false }, path, args...)
}

func run(t testing.TB, heard func(line string) bool, path string, args ...string) (*Process, error) {
	t.Helper()
	cmd := exec.Command(path, args...)
	logs, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, exited: make(chan error, 1), said: said{grown: make(chan struct{})}}
	listening := make(chan bool, 1)
	go func() {
		for lines := bufio.NewScanner(logs); lines.Scan(); {
			if heard(lines.Text()) {
				continue
			}
			var line struct{ Msg string }
			_ = json.Unmarshal(lines.Bytes(), &line)
			if line.Msg == "listening" {
				listening <- true
			}
			p.said.add(lines.Text())
		}
		err := cmd.Wait()
		if err != nil {
			said, _ := p.said.now()
			err = fmt.Errorf("%w: %s", err, said)
		}
		p.exited <- err
		close(listening)
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	select {
	case ok := <-listening:
		if !ok {
			return nil, fmt.Errorf("serve ended before it listened: %w", <-p.exited)
		}
	case <-time.After(time.Minute):
		return nil, errors.New("serve does not listen after a minute")
	}
	return p, nil
}

// Kill is kill -9; it returns when the process is gone.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("kill: %v", err)
	}
	if err := <-p.exited; err == nil {
		t.Error("a killed serve ended well")
	}
}

// Pause stops the process where it is, as a machine does that swaps or is moved.
func (p *Process) Pause(t testing.TB) { p.signal(t, syscall.SIGSTOP) }

// Resume has a paused process go on.
func (p *Process) Resume(t testing.TB) { p.signal(t, syscall.SIGCONT) }

func (p *Process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%v: %v", s, err)
	}
}

// Stop is SIGTERM; serve must end well.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	if err := <-p.exited; err != nil {
		t.Errorf("serve did not end well: %v", err)
	}
}

// Hangup is SIGHUP.
func (p *Process) Hangup(t testing.TB) { p.signal(t, syscall.SIGHUP) }

// Await returns when the log has text so many times.
func (p *Process) Await(t testing.TB, text string, times int) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		said, grown := p.said.now()
		if strings.Count(said, text) >= times {
			return
		}
		select {
		case <-grown:
		case <-late:
			t.Fatalf("after a minute the log has %q not %d times:\n%s", text, times, said)
		}
	}
}

// FreeAddress gives a loopback address that nothing listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	return lis.Addr().String()
}

// Dial connects to address and comes back quickly after a kill.
func Dial(address string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}),
	}, opts...)...)
}
