package sqlreceipt

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/oncekeeper/oncekeeper/client/receipt/internal/transact"
)

type stated string

func (s stated) Error() string    { return string(s) }
func (s stated) SQLState() string { return string(s) }

type coded int

func (c coded) Error() string { return fmt.Sprint(int(c)) }
func (c coded) Code() int     { return int(c) }

func TestAnErrorMeansWhatItsCodeSays(t *testing.T) {
	silent := errors.New("no code")
	for name, c := range map[string]struct {
		dialect            Dialect
		err                error
		before, committing transact.Fate
	}{
		"serialization failure":          {Postgres, stated("40001"), transact.Collided, transact.Collided},
		"deadlock":                       {Postgres, stated("40P01"), transact.Collided, transact.Collided},
		"wrapped":                        {Postgres, fmt.Errorf("doing: %w", stated("40001")), transact.Collided, transact.Collided},
		"unique violation":               {Postgres, stated("23505"), transact.Refused, transact.Refused},
		"statement time-out":             {Postgres, stated("57014"), transact.Refused, transact.Refused},
		"ambiguous commit":               {Postgres, stated("40003"), transact.Lost, transact.Lost},
		"administrator's shutdown":       {Postgres, stated("57P01"), transact.Lost, transact.Lost},
		"connection failure":             {Postgres, stated("08006"), transact.Lost, transact.Lost},
		"disk failure":                   {Postgres, stated("58030"), transact.Lost, transact.Lost},
		"bad connection":                 {Postgres, driver.ErrBadConn, transact.Lost, transact.Lost},
		"end of file":                    {Postgres, io.ErrUnexpectedEOF, transact.Lost, transact.Lost},
		"the caller's context":           {Postgres, context.Canceled, transact.Refused, transact.Lost},
		"no code, Postgres":              {Postgres, silent, transact.Refused, transact.Lost},
		"busy":                           {SQLite, coded(5), transact.Busy, transact.Busy},
		"busy with a newer snapshot":     {SQLite, coded(5 | 2<<8), transact.Busy, transact.Busy},
		"locked":                         {SQLite, coded(6), transact.Busy, transact.Busy},
		"locked, shared cache":           {SQLite, coded(6 | 1<<8), transact.Busy, transact.Busy},
		"constraint":                     {SQLite, coded(19 | 3<<8), transact.Refused, transact.Refused},
		"I/O error":                      {SQLite, coded(10 | 4<<8), transact.Refused, transact.Lost},
		"disk full":                      {SQLite, coded(13), transact.Refused, transact.Lost},
		"no code, SQLite":                {SQLite, silent, transact.Refused, transact.Lost},
		"a code that Postgres has not":   {Postgres, coded(5), transact.Refused, transact.Lost},
		"a state that SQLite has not":    {SQLite, stated("40001"), transact.Refused, transact.Lost},
		"a context's, lost with its end": {SQLite, context.DeadlineExceeded, transact.Refused, transact.Lost},
	} {
		fate := speechOf(Config{Dialect: c.dialect}).fate
		if before, committing := fate(c.err, false), fate(c.err, true); before != c.before || committing != c.committing {
			t.Errorf("%s: %d before the commit and %d at it, want %d and %d", name, before, committing, c.before, c.committing)
		}
	}
}

func TestAnotherDriversResultCodesAreReadAsToldTo(t *testing.T) {
	own := errors.New("busy")
	fate := speechOf(Config{Dialect: SQLite, ResultCode: func(err error) (int, bool) { return 5, errors.Is(err, own) }}).fate
	if got := fate(own, false); got != transact.Busy {
		t.Errorf("its busy error is %d, want %d", got, transact.Busy)
	}
	if got := fate(coded(5), false); got != transact.Refused {
		t.Errorf("an error that it does not read is %d, want %d", got, transact.Refused)
	}
}
