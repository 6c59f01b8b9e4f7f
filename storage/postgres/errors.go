package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
)

// fate is what is known of a transaction that failed.
type fate uint8

const (
	// refused: nothing was applied, and the same again would fail the same.
	refused fate = iota
	// collided: nothing was applied; the same again may well work.
	collided
	// unknown: it may have been applied, or may yet be.
	unknown
)

// passing are the codes of what a new try gets past: a server that was demoted by
// another connection, and a column whose type was changed by planning anew.
var passing = []string{serializationFailure, deadlockDetected, readOnlyTransaction, featureNotSupported}

// SQLSTATE codes, and classes of two characters.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	readOnlyTransaction  = "25006"
	featureNotSupported  = "0A000" // "cached plan must not change result type"
	classConnection      = "08"
	classData            = "22"
	classLimits          = "54"
	classIntervention    = "57P"
)

// fateOf tells by the SQLSTATE, never by text. Where the server said nothing the
// connection broke, before or after a commit.
func fateOf(err error) fate {
	fault := (*pgconn.PgError)(nil)
	switch {
	case !errors.As(err, &fault):
		if pgconn.SafeToRetry(err) {
			return collided
		}
		return unknown
	case slices.Contains(passing, fault.Code):
		return collided
	case strings.HasPrefix(fault.Code, classIntervention) || strings.HasPrefix(fault.Code, classConnection) || fault.SeverityUnlocalized != "ERROR":
		return unknown
	default:
		return refused
	}
}

// isOfOneCommand: the fault lies in what one of the commands holds, and the others
// are better tried without it.
func isOfOneCommand(err error) bool {
	fault := (*pgconn.PgError)(nil)
	return errors.As(err, &fault) && (strings.HasPrefix(fault.Code, classData) || strings.HasPrefix(fault.Code, classLimits))
}

// unavailable is what a caller gets; the cause is for the log, and is not part of
// the error's chain: a caller must not come to depend on the driver.
func unavailable(doing string, cause error) error {
	return fmt.Errorf("%w: %s: %v", oncekeeper.ErrStoreUnavailable, doing, cause)
}

var errClosed = fmt.Errorf("the store is closed: %w", oncekeeper.ErrStoreUnavailable)

// with runs do on a connection, which is counted as a trip. A connection that turned out to be of no use is
// not given back to the pool.
func (s *Store) with(ctx context.Context, trip int, do func(context.Context, *pgxpool.Conn) error) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return &noConnection{err}
	}
	s.counters.trips[trip].Add(1)
	defer conn.Release()
	err = do(ctx, conn)
	if conn.Conn().PgConn().CustomData()[unreplicated] == true {
		_ = conn.Conn().Close(ctx)
		s.counters.unreplicated.Add(1)
		return errors.Join(errUnreplicated, err)
	}
	if isDemoted(err) {
		// The pool makes new connections, to the server that can be written to.
		s.pool.Reset()
	}
	return err
}

// acquire gives a connection. Where no more can be made it waits for one of those
// that there are, and where there are none it gives up at once.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	for {
		if cause := s.down.refuses(); cause != nil && s.connections() == 0 {
			return nil, cause
		}
		conn, err := s.pool.Acquire(ctx)
		if err == nil {
			return conn, nil
		}
		if refused := (*refusal)(nil); ctx.Err() == nil && !errors.As(err, &refused) {
			s.down.failed(err)
		}
		if ctx.Err() != nil || s.connections() == 0 || s.queue.isClosed() {
			return nil, err
		}
		select {
		case <-time.After(retryAcquire):
		case <-ctx.Done():
		}
	}
}

// retryAcquire is how often one asks for a connection that others have: the pool
// would rather make one, and cannot.
const retryAcquire = 2 * time.Millisecond

// connections gives how many there are, those left out that are being made.
func (s *Store) connections() int32 {
	stat := s.pool.Stat()
	return stat.AcquiredConns() + stat.IdleConns()
}

// isDemoted: the server became read-only, since the connection was made.
func isDemoted(err error) bool {
	fault := (*pgconn.PgError)(nil)
	return errors.Is(err, errReadOnly) || errors.As(err, &fault) && fault.Code == readOnlyTransaction
}

var errUnreplicated = errors.New("the database warned that it ends, or that a commit did not wait for its standby")

// noConnection: nothing was sent.
type noConnection struct{ error }

func (e *noConnection) Unwrap() error { return e.error }

// read runs a statement that changes nothing, once more where the connection was
// dead already; its errors are storage.Store's.
func (s *Store) read(ctx context.Context, trip int, do func(context.Context, *pgxpool.Conn) error) error {
	if s.queue.isClosed() {
		return errClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	bounded, cancel := context.WithTimeout(ctx, s.cfg.WriteTimeout)
	defer cancel()
	// A caller that leaves while its statement runs would take the connection along,
	// and many that do, all of them.
	detached := do
	do = func(ctx context.Context, conn *pgxpool.Conn) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.WriteTimeout)
		defer cancel()
		return detached(ctx, conn)
	}
	err := s.with(bounded, trip, do)
	if none := (*noConnection)(nil); err != nil && !errors.As(err, &none) && fateOf(err) != refused && bounded.Err() == nil {
		err = s.with(bounded, trip, do)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return unavailable("reading", err)
	}
}

// each scans every row of one statement of a batch.
func each(br pgx.BatchResults, scan func(pgx.Rows) error) error {
	rows, err := br.Query()
	if err != nil {
		return err
	}
	return scanEach(rows, scan)
}

// eachOf scans every row of the next n statements of a batch.
func eachOf(br pgx.BatchResults, n int, scan func(pgx.Rows) error) error {
	for range n {
		if err := each(br, scan); err != nil {
			return err
		}
	}
	return nil
}

func scanEach(rows pgx.Rows, scan func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// closed ends a batch whose statements gave err. Where that is none, its commit
// may still fail here.
func closed(br pgx.BatchResults, err error) error {
	if closing := br.Close(); err == nil {
		err = closing
	}
	return err
}

// lostAnswer logs that nothing is known of a commit.
func (s *Store) lostAnswer(err error) {
	s.counters.lost.Add(1)
	if missed, say := s.lost.next(); say {
		s.log.Warn("the answer to a commit was lost", "error", err, "and_since_the_last_line", missed)
	}
}

// seldom lets a line through a second, and counts what it keeps back: a database
// that is out of reach is one fault, however many calls meet it.
type seldom struct {
	mu   sync.Mutex
	from time.Time
	kept int
}

func (s *seldom) next() (kept int, say bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(s.from) {
		s.kept++
		return 0, false
	}
	kept = s.kept
	s.kept, s.from = 0, now.Add(time.Second)
	return kept, true
}
