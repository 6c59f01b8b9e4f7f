package sqlreceipt

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/internal/table"
	"github.com/oncekeeper/oncekeeper/client/receipt/internal/transact"
)

// speech reads a driver's errors: by code, never by text.
type speech struct {
	// fate says what an error means for its transaction.
	fate func(err error, committing bool) transact.Fate
	// explain names the schema command where that is what is missing.
	explain func(context.Context, error) error
}

func speechOf(c Config) speech {
	if c.Dialect == Postgres {
		return speech{fate: postgresFate, explain: postgresExplain}
	}
	code := c.ResultCode
	if code == nil {
		code = resultCode
	}
	missing := masterOf(c.Schema)
	return speech{
		fate: func(err error, committing bool) transact.Fate { return sqliteFate(code, err, committing) },
		explain: func(ctx context.Context, err error) error {
			// SQLite has no code of its own for a missing table.
			if n, ok := code(err); !ok || n&0xff != sqliteError {
				return err
			}
			var found int
			row := c.DB.QueryRowContext(ctx, missing, table.Name)
			if row.Scan(&found) == nil && found == 0 {
				return receipt.ErrNoTable
			}
			return err
		},
	}
}

// SQLSTATE codes, and classes of two characters or more.
const (
	serializationFailure = "40001"
	completionUnknown    = "40003"
	deadlockDetected     = "40P01"
	undefinedTable       = "42P01"
	classConnection      = "08"
	classIntervention    = "57P"
	classSystem          = "58"
	classInternal        = "XX"
)

func sqlState(err error) string {
	var fault interface{ SQLState() string }
	if errors.As(err, &fault) {
		return fault.SQLState()
	}
	return ""
}

func postgresFate(err error, committing bool) transact.Fate {
	state := sqlState(err)
	if state == "" {
		return silentFate(err, committing)
	}
	if state == serializationFailure || state == deadlockDetected {
		return transact.Collided
	}
	if state == completionUnknown {
		return transact.Lost
	}
	for _, class := range []string{classConnection, classIntervention, classSystem, classInternal} {
		if strings.HasPrefix(state, class) {
			return transact.Lost
		}
	}
	return transact.Refused
}

func postgresExplain(_ context.Context, err error) error {
	if sqlState(err) == undefinedTable {
		return receipt.ErrNoTable
	}
	return err
}

// SQLite's primary result codes, the low byte of what a driver gives.
const (
	sqliteError      = 1
	sqliteBusy       = 5
	sqliteLocked     = 6
	sqliteConstraint = 19
)

func resultCode(err error) (int, bool) {
	var fault interface{ Code() int }
	if errors.As(err, &fault) {
		return fault.Code(), true
	}
	return 0, false
}

// sqliteFate: a commit that is busy, or breaks a deferred constraint, is rolled back
// by the drivers; after any other fault of it the file tells.
func sqliteFate(code func(error) (int, bool), err error, committing bool) transact.Fate {
	n, ok := code(err)
	if !ok {
		return silentFate(err, committing)
	}
	switch n & 0xff {
	case sqliteBusy, sqliteLocked:
		return transact.Busy
	case sqliteConstraint:
		return transact.Refused
	}
	if committing {
		return transact.Lost
	}
	return transact.Refused
}

// silentFate is for an error that is not the database's own word.
func silentFate(err error, committing bool) transact.Fate {
	network := net.Error(nil)
	switch {
	case committing:
		return transact.Lost
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return transact.Refused
	case errors.As(err, &network), errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return transact.Lost
	default:
		return transact.Refused
	}
}

// masterOf counts a table in the schema's own list.
func masterOf(schema string) string {
	if schema == "" {
		return "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
	}
	return `SELECT count(*) FROM "` + strings.ReplaceAll(schema, `"`, `""`) + `".sqlite_master WHERE type = 'table' AND name = ?`
}
