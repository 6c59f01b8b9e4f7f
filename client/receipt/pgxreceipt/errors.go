package pgxreceipt

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/internal/transact"
)

// SQLSTATE codes, and classes of two characters or more.
const (
	serializationFailure = "40001"
	completionUnknown    = "40003"
	deadlockDetected     = "40P01"
	undefinedTable       = "42P01"
	classConnection      = "08"
	classIntervention    = "57P"
)

// fateOf tells by the SQLSTATE, never by text. With no word of the server a commit
// may have been done, whatever the error.
func fateOf(err error, committing bool) transact.Fate {
	fault := (*pgconn.PgError)(nil)
	switch {
	case errors.As(err, &fault):
		return fateOfCode(fault)
	case errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, errNotSent):
		return transact.Refused
	case committing || isOfConnection(err):
		return transact.Lost
	default:
		return transact.Refused
	}
}

// isOfConnection: the connection broke by itself. Where it was given up at the end
// of a context, the context is in the error too.
func isOfConnection(err error) bool {
	network := net.Error(nil)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &network), pgconn.SafeToRetry(err):
		return true
	default:
		return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, pgconn.ErrConnClosed)
	}
}

func fateOfCode(fault *pgconn.PgError) transact.Fate {
	switch {
	case fault.Code == serializationFailure || fault.Code == deadlockDetected:
		return transact.Collided
	case fault.Code == completionUnknown || fault.SeverityUnlocalized != "ERROR" ||
		strings.HasPrefix(fault.Code, classConnection) || strings.HasPrefix(fault.Code, classIntervention):
		return transact.Lost
	default:
		return transact.Refused
	}
}

// explain names the schema command where that is what is missing. It is for errors
// of statements on the table of receipts alone.
func explain(err error) error {
	if fault := (*pgconn.PgError)(nil); errors.As(err, &fault) && fault.Code == undefinedTable {
		return receipt.ErrNoTable
	}
	return err
}
