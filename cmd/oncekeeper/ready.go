package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// readyCmd is for what can run a command and no more: the health check of a container
// whose image has nothing but this binary.
type readyCmd struct {
	HTTP    string        `name:"http" env:"ONCEKEEPER_HTTP" default:"127.0.0.1:8461" help:"Address of the service's probes, as serve has it: where that is every address of the machine, this machine is asked."`
	Timeout time.Duration `env:"ONCEKEEPER_TIMEOUT" default:"${timeout}" help:"How long to wait for an answer of it."`
}

func (c *readyCmd) Help() string {
	return `Asks /readyz of a service's port for probes, and ends with 0 where the service can answer calls. It says why where it cannot.

Example:

  oncekeeper ready`
}

// Validate refuses an address that nothing can answer at.
func (c *readyCmd) Validate() error {
	if (&opsFlags{HTTP: c.HTTP}).off() {
		return errors.New("--http is off: a service without that port cannot be asked")
	}
	if _, _, err := net.SplitHostPort(c.HTTP); err != nil {
		return fmt.Errorf("--http %q: %w: give host:port", c.HTTP, err)
	}
	return nil
}

// maxProbeBytes is more than a probe says.
const maxProbeBytes = 4 << 10

func (c *readyCmd) Run(ctx context.Context, term console) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	address := onThisHost(c.HTTP)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("--http %s: %w", c.HTTP, err)
	}
	// No proxy of the environment stands before a probe.
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer from %s within %v: give it longer with --timeout", address, c.Timeout)
	}
	if err != nil {
		return fmt.Errorf("no answer from %s: is the service running there? (%w)", address, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxProbeBytes))
	if err != nil {
		return fmt.Errorf("the answer from %s broke off: %w", address, err)
	}
	said := strings.TrimSpace(string(body))
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d: %s", address, res.StatusCode, printable(said))
	}
	_, err = fmt.Fprintln(term.out, printable(said))
	return err
}

// onThisHost gives where to ask what listens on address.
func onThisHost(address string) string {
	host, port, err := net.SplitHostPort(address)
	switch ip := net.ParseIP(host); {
	case err != nil:
		return address
	case host == "" || ip.Equal(net.IPv4zero):
		return net.JoinHostPort("127.0.0.1", port)
	case ip.IsUnspecified():
		return net.JoinHostPort("::1", port)
	}
	return address
}
