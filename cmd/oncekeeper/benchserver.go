package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// measuredStop bounds how long a service that was measured may take to stop.
const measuredStop = 30 * time.Second

// measured is a service that runs to be measured.
type measured struct {
	process *exec.Cmd
	address string
	place   *place
}

// startMeasured starts a process of this very binary that serves a store which is
// not there yet.
func startMeasured(ctx context.Context, store string) (*measured, error) {
	place, err := makePlace(ctx, store)
	if err != nil {
		return nil, err
	}
	m := &measured{place: place}
	if err := m.start(ctx, place.store); err != nil {
		return nil, errors.Join(err, m.remove())
	}
	return m, nil
}

// start returns once the service listens.
func (m *measured) start(ctx context.Context, store string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("starting a service: %w", err)
	}
	m.process = exec.CommandContext(ctx, self, "serve", "--answer-empty-calls", "--migrate", "--listen", "127.0.0.1:0", "--http", "off", "--log-format", "json")
	m.process.Cancel = func() error { return m.process.Process.Signal(syscall.SIGTERM) }
	m.process.WaitDelay = measuredStop
	// Its settings are this command's and no others; the address of a store may have a
	// password in it, and who lists processes sees their arguments.
	m.process.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ONCEKEEPER_") }), "ONCEKEEPER_STORE="+store)
	logs, err := m.process.StderrPipe()
	if err != nil {
		return err
	}
	if err := m.process.Start(); err != nil {
		m.process = nil
		return fmt.Errorf("starting a service: %w", err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			m.address = line.Address
			// It must never wait for its log to be read.
			go func() { _, _ = io.Copy(io.Discard, logs) }()
			return nil
		}
		said.WriteString("\n" + lines.Text())
	}
	return fmt.Errorf("the service that was started to be measured stopped: %s", said.String())
}

func (m *measured) pid() int { return m.process.Process.Pid }

// stop ends the service and leaves its records.
func (m *measured) stop() error {
	if m.process == nil {
		return nil
	}
	process := m.process
	m.process = nil
	_ = process.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(measuredStop, func() { _ = process.Process.Kill() })
	defer late.Stop()
	if err := process.Wait(); err != nil {
		return fmt.Errorf("the service that was measured: %w", err)
	}
	return nil
}

// remove ends the service and leaves nothing of it.
func (m *measured) remove() error { return errors.Join(m.stop(), m.place.remove()) }
