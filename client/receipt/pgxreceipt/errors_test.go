package pgxreceipt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncekeeper/oncekeeper/client/receipt/internal/transact"
)

func TestAnErrorMeansWhatItsCodeSays(t *testing.T) {
	fault := func(severity, code string) error {
		return fmt.Errorf("doing: %w", &pgconn.PgError{Code: code, SeverityUnlocalized: severity})
	}
	for name, c := range map[string]struct {
		err                error
		before, committing transact.Fate
	}{
		"serialization failure":     {fault("ERROR", "40001"), transact.Collided, transact.Collided},
		"deadlock":                  {fault("ERROR", "40P01"), transact.Collided, transact.Collided},
		"unique violation":          {fault("ERROR", "23505"), transact.Refused, transact.Refused},
		"statement time-out":        {fault("ERROR", "57014"), transact.Refused, transact.Refused},
		"ambiguous commit":          {fault("ERROR", "40003"), transact.Lost, transact.Lost},
		"administrator's shutdown":  {fault("FATAL", "57P01"), transact.Lost, transact.Lost},
		"idle for too long":         {fault("FATAL", "25P03"), transact.Lost, transact.Lost},
		"a pooler's":                {fault("ERROR", "08P01"), transact.Lost, transact.Lost},
		"a commit that rolled back": {pgx.ErrTxCommitRollback, transact.Refused, transact.Refused},
		"a commit that was not sent": {
			fmt.Errorf("%w: %w", errNotSent, io.EOF), transact.Refused, transact.Refused,
		},
		"end of file":          {fmt.Errorf("receiving: %w", io.ErrUnexpectedEOF), transact.Lost, transact.Lost},
		"a network's":          {&net.OpError{Op: "read", Err: errors.New("reset")}, transact.Lost, transact.Lost},
		"a closed connection":  {pgconn.ErrConnClosed, transact.Lost, transact.Lost},
		"the caller's context": {context.Canceled, transact.Refused, transact.Lost},
		"no word of a server":  {errors.New("encoding"), transact.Refused, transact.Lost},
	} {
		if before, committing := fateOf(c.err, false), fateOf(c.err, true); before != c.before || committing != c.committing {
			t.Errorf("%s: %d before the commit and %d at it, want %d and %d", name, before, committing, c.before, c.committing)
		}
	}
}
