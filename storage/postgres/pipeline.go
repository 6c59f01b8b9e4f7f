package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// statement is one of a pipeline, and a transaction by itself.
type statement struct {
	sql  string
	args []any
	// scan takes each row that it gives; nil for a statement that gives none.
	scan func(pgx.Rows) error

	// sent: it may be applied, whatever becomes of the connection.
	sent bool
	// rows that it changed, where err is nil: its commit was answered.
	rows int64
	err  error
}

// pipelined sends all at once and reads their answers, each of which is its
// statement's alone: a synchronization point behind each ends its transaction. It
// gives an error where nothing was sent, or where the server can no longer be
// written to.
func pipelined(ctx context.Context, conn *pgx.Conn, all []*statement) error {
	pg := conn.PgConn()
	names := map[string]string{}
	if pg.CustomData()[named] == true {
		for _, st := range all {
			prepared, err := conn.Prepare(ctx, st.sql, st.sql)
			if err != nil {
				return err
			}
			names[st.sql] = prepared.Name
		}
	}
	pipe := pg.StartPipeline(ctx)
	for _, st := range all {
		st.send(pipe, names[st.sql])
	}
	if err := pipe.Flush(); err != nil {
		for _, st := range all {
			st.err = err
		}
		return nil
	}
	var readOnly error
	unsafe := false
	for i, st := range all {
		st.err = st.read(pipe, conn.TypeMap())
		if pg.CustomData()[unreplicated] == true {
			delete(pg.CustomData(), unreplicated)
			if unsafe = true; st.err == nil { // else that says what became of it
				st.err = errUnreplicated
			}
		}
		if fault := (*pgconn.PgError)(nil); errors.As(st.err, &fault) && fault.Code == readOnlyTransaction {
			readOnly = st.err
		}
		if pg.IsClosed() {
			// What the server said of this one says nothing of those behind it.
			for _, lost := range all[i+1:] {
				lost.err = fmt.Errorf("the connection broke: %v", st.err)
			}
			break
		}
	}
	_ = pipe.Close() // each statement has its error
	if unsafe {
		_ = conn.Close(ctx)
	}
	forgetOutdated(ctx, conn, all)
	return readOnly
}

// forgetOutdated has statements prepared anew that the table's change left behind.
func forgetOutdated(ctx context.Context, conn *pgx.Conn, all []*statement) {
	for _, st := range all {
		fault := (*pgconn.PgError)(nil)
		if errors.As(st.err, &fault) && fault.Code == featureNotSupported && !conn.IsClosed() {
			if err := conn.Deallocate(ctx, st.sql); err != nil {
				_ = conn.Close(ctx)
			}
		}
	}
}

func (st *statement) send(pipe *pgconn.Pipeline, name string) {
	values := make([][]byte, len(st.args))
	types := make([]uint32, len(st.args))
	for i, arg := range st.args {
		values[i], types[i] = encoded(arg)
	}
	binary := []int16{pgx.BinaryFormatCode}
	if name != "" {
		pipe.SendQueryPrepared(name, values, binary, binary)
	} else {
		pipe.SendQueryParams(st.sql, values, types, binary, binary)
	}
	pipe.SendPipelineSync()
	st.sent = true
}

// read gives the statement's error. Its commit is answered at the synchronization
// point only: what comes before is no answer yet.
func (st *statement) read(pipe *pgconn.Pipeline, types *pgtype.Map) error {
	results, err := pipe.GetResults()
	if reader, is := results.(*pgconn.ResultReader); is {
		rows := pgx.RowsFromResultReader(types, reader)
		err = scanEach(rows, st.scan)
		st.rows = rows.CommandTag().RowsAffected()
	}
	for {
		results, failed := pipe.GetResults()
		if _, is := results.(*pgconn.PipelineSync); is {
			return err
		}
		if err == nil {
			err = failed
		}
		if fault := (*pgconn.PgError)(nil); !errors.As(failed, &fault) {
			return errors.Join(err, failed, errNoSync)
		}
	}
}

var errNoSync = errors.New("the answers to a pipeline ended early")

// encoded gives a value as the wire has it, in binary, and its type.
func encoded(arg any) (value []byte, oid uint32) {
	switch v := arg.(type) {
	case string:
		return []byte(v), pgtype.TextOID
	case int64:
		return binary.BigEndian.AppendUint64(nil, uint64(v)), pgtype.Int8OID
	case int16:
		return binary.BigEndian.AppendUint16(nil, uint16(v)), pgtype.Int2OID
	case bool:
		if v {
			return []byte{1}, pgtype.BoolOID
		}
		return []byte{0}, pgtype.BoolOID
	case []byte:
		return v, pgtype.ByteaOID
	default:
		panic(fmt.Sprintf("no statement takes a %T", arg))
	}
}
