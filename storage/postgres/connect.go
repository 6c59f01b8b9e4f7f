package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connectTimeout bounds one attempt to connect to one host, unless the DSN does.
const connectTimeout = 5 * time.Second

// errAddress is told in place of what the parser says, which quotes what it could not
// read, password or not.
var errAddress = errors.New("the Postgres address cannot be read: give postgres://USER@HOST:PORT/DATABASE, or key=value words, as in its documentation")

func newPool(ctx context.Context, cfg Config, down *breaker) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(cfg.DSN)
	if err != nil {
		return nil, errAddress
	}
	switch {
	case cfg.MaxConns > 0:
		pc.MaxConns = int32(cfg.MaxConns)
	case !strings.Contains(cfg.DSN, "pool_max_conns"):
		pc.MaxConns = 8
	}
	pc.MaxConnLifetimeJitter = pc.MaxConnLifetime / 10
	c := pc.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	if !strings.Contains(cfg.DSN, "default_query_exec_mode") {
		// Statements have no names, which poolers mix up, and are planned for the
		// table as it is now, which grows faster than its statistics.
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "oncekeeper"
	}
	c.ValidateConnect = validate(c.ValidateConnect)
	neverCancel(&c.Config)
	c.OnNotice = noteUnreplicated
	pc.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return down.enter() }
	pc.AfterConnect = func(context.Context, *pgx.Conn) error {
		down.worked()
		return nil
	}
	return pgxpool.NewWithConfig(ctx, pc)
}

// neverCancel keeps pgx from asking the server to cancel a statement, as it does
// whenever it gives a connection up: it dials the address that the connection
// names, and that is one that the dialler refuses.
func neverCancel(c *pgconn.Config) {
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if network == noNetwork {
			return nil, errors.New("statements are never cancelled")
		}
		return dial(ctx, network, address)
	}
	c.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
		return uncancellable{conn}, nil
	}
}

var errReadOnly = errors.New("the server is read-only: it is a standby, or default_transaction_read_only is on")

// named marks a connection that reaches its server with no pooler between, so that
// statements can be prepared on it once and for all.
const named = "oncekeeper: named"

// errNoWarnings: whether a commit waited for its standby is told by a warning alone,
// and none would come.
var errNoWarnings = errors.New("client_min_messages keeps warnings back, and a commit that no standby has would pass for one that is safe: " +
	"ALTER ROLE and ALTER DATABASE … RESET client_min_messages, and take it out of the address")

// silent are the values of client_min_messages under which no warning comes.
var silent = []string{"error", "fatal", "panic"}

// validate takes of several hosts the one that can be written to, and no standby
// otherwise, whatever the DSN asks beyond. It tells a pooler by the process id,
// which it makes up.
func validate(asked pgconn.ValidateConnectFunc) pgconn.ValidateConnectFunc {
	return func(ctx context.Context, conn *pgconn.PgConn) error {
		res := conn.ExecParams(ctx, "SELECT current_setting('transaction_read_only'), pg_backend_pid(), current_setting('client_min_messages')", nil, nil, nil, nil).Read()
		switch {
		case res.Err != nil:
			return res.Err
		case len(res.Rows) != 1 || string(res.Rows[0][0]) != "off":
			return errReadOnly
		case slices.Contains(silent, string(res.Rows[0][2])):
			return errNoWarnings
		}
		// What the server warned of on connecting was no commit.
		delete(conn.CustomData(), unreplicated)
		conn.CustomData()[named] = string(res.Rows[0][1]) == strconv.FormatUint(uint64(conn.PID()), 10)
		if asked != nil {
			return asked(ctx, conn)
		}
		return nil
	}
}

const noNetwork = "never cancelled"

type uncancellable struct{ net.Conn }

func (uncancellable) RemoteAddr() net.Addr { return noAddress{} }

type noAddress struct{}

func (noAddress) Network() string { return noNetwork }
func (noAddress) String() string  { return noNetwork }

// unreplicated marks a connection on which a commit did not wait for its standby,
// because an operator, or a time-out of the database's, ended the wait.
const unreplicated = "oncekeeper: unreplicated"

// noteUnreplicated takes any warning for it: none other comes with these
// statements.
func noteUnreplicated(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[unreplicated] = true
	}
}

// connectError says why no connection could be made, in words without a secret.
func connectError(c *pgx.ConnConfig, err error) error {
	return fmt.Errorf("connecting to %s: %s", describe(c), reason(err))
}

// describe says which database it is and who asks, with nothing secret.
func describe(c *pgx.ConnConfig) string {
	var hosts []string
	add := func(host string, port uint16) {
		at := fmt.Sprintf("%s:%d", host, port)
		if strings.HasPrefix(host, "/") {
			at = host
		}
		if len(hosts) == 0 || hosts[len(hosts)-1] != at {
			hosts = append(hosts, at)
		}
	}
	add(c.Host, c.Port)
	for _, f := range c.Fallbacks {
		add(f.Host, f.Port)
	}
	return fmt.Sprintf("Postgres at %s, database %q, as %q", strings.Join(hosts, ", "), c.Database, c.User)
}

// reason gives what an operator can act on: the server's own words, or the
// network's.
func reason(err error) string {
	if fault := (*pgconn.PgError)(nil); errors.As(err, &fault) {
		return fmt.Sprintf("%s (%s)", fault.Message, fault.Code)
	}
	if fault := (*net.OpError)(nil); errors.As(err, &fault) {
		return fault.Error()
	}
	if fault := (*net.DNSError)(nil); errors.As(err, &fault) {
		return fault.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	for _, known := range []error{errReadOnly, errNoWarnings} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "it failed: " + lastLine(err.Error())
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// breaker bounds how often connections are tried for that cannot be made: after a
// failure none is for a moment, and then one at a time. So a database that is down
// costs its callers little, and meets no storm when it is back.
type breaker struct {
	mu      sync.Mutex
	until   time.Time
	pause   time.Duration // 0: the last one was made
	probing bool
	cause   error
}

const (
	firstPause = 50 * time.Millisecond
	maxPause   = time.Second
)

// refusal is given for a connection that was not tried for.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// refuses gives why no connection is tried for now, or nil.
func (b *breaker) refuses() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Now().Before(b.until) {
		return &refusal{b.cause}
	}
	return nil
}

// fails: the last connection that was tried for could not be made, however long ago.
func (b *breaker) fails() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pause > 0
}

// enter is refuses for one who tries where he is not refused.
func (b *breaker) enter() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	switch {
	case b.pause == 0:
		return nil
	case now.Before(b.until):
		return &refusal{b.cause}
	}
	b.probing, b.until = true, now.Add(connectTimeout)
	return nil
}

func (b *breaker) failed(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pause > 0 && !b.probing {
		return // it began before the last one failed
	}
	b.pause = min(max(firstPause, 2*b.pause), maxPause)
	b.probing, b.until, b.cause = false, time.Now().Add(b.pause), cause
}

func (b *breaker) worked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pause, b.probing, b.until, b.cause = 0, false, time.Time{}, nil
}
