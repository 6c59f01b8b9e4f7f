package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/storage/internal/codec"
)

// row is a record as it is stored, and what is stored for the sweep beside it.
type row struct {
	rec     *oncekeeper.KeyRecord
	sweepAt int64
}

// scanRecord reads the columns of a record.
func scanRecord(rows pgx.Rows) (row, error) {
	var (
		key                  oncekeeper.Key
		r                    oncekeeper.KeyRecord
		sweepAt              int64
		lease, retention     int64
		state, last          int16
		hold                 bool
		grantBlob, endedBlob []byte
	)
	err := rows.Scan(&key.Tenant, &key.Operation, &key.ID, &r.Token, &r.Revision, &r.Created, &r.LeaseEnd, &r.UnsettledUntil,
		&r.Expires, &r.Settled, &sweepAt, &lease, &retention, &state, &last, &r.Takeover, &hold, &grantBlob, &endedBlob)
	if err != nil {
		return row{}, err
	}
	rec, err := codec.Decode(key, grantBlob)
	if err != nil {
		return row{}, err
	}
	if endedBlob != nil {
		ended, err := codec.Decode(key, endedBlob)
		if err != nil {
			return row{}, err
		}
		rec.Response, rec.Status, rec.Origin = ended.Response, ended.Status, ended.Origin
	}
	rec.Token, rec.Revision, rec.Created, rec.LeaseEnd = r.Token, r.Revision, r.Created, r.LeaseEnd
	rec.UnsettledUntil, rec.Expires, rec.Settled, rec.Takeover = r.UnsettledUntil, r.Expires, r.Settled, r.Takeover
	rec.State, rec.Last = oncekeeper.StoredState(narrow(state)), oncekeeper.Settlement(narrow(last))
	rec.Granted.Lease, rec.Granted.Retention, rec.Granted.Hold = length(lease), length(retention), hold
	return row{rec: rec, sweepAt: sweepAt}, nil
}

// narrow keeps a value that does not fit from passing for one that is known.
func narrow(v int16) uint8 {
	if v < 0 || v > 255 {
		return 255
	}
	return uint8(v)
}

func length(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

func micros(d time.Duration) int64 { return int64(oncekeeper.CeilMicrosecond(d) / time.Microsecond) }

// grantPart encodes what has no column of what a Begin asked and its attempt saved,
// and what the key went through before, which no settlement changes.
func grantPart(rec *oncekeeper.KeyRecord) ([]byte, error) {
	return codec.Append(nil, &oncekeeper.KeyRecord{
		Fingerprint: rec.Fingerprint, FingerprintScheme: rec.FingerprintScheme, AnyFingerprint: rec.AnyFingerprint,
		CallID: rec.CallID, Attempt: rec.Attempt, NotRun: rec.NotRun, Holder: rec.Holder, Principal: rec.Principal,
		TraceParent: rec.TraceParent, Checkpoint: rec.Checkpoint,
		Granted: oncekeeper.Grant{UnsettledRetention: rec.Granted.UnsettledRetention, MaxAttempts: rec.Granted.MaxAttempts},
		History: rec.History,
	})
}

// outcomePart encodes what was last settled with; nil for nothing.
func outcomePart(response *oncekeeper.Response, status *oncekeeper.Status, origin oncekeeper.Origin) ([]byte, error) {
	if response == nil && status == nil && origin == 0 {
		return nil, nil
	}
	return codec.Append(nil, &oncekeeper.KeyRecord{Response: response, Status: status, Origin: origin})
}

// columnsOf gathers values, a row at a time, for a statement that takes n rows.
type columnsOf struct {
	n       int
	columns []any
}

// add appends a row; its values are of the same types each time.
func (c *columnsOf) add(values ...any) {
	c.n++
	if c.columns == nil {
		c.columns = make([]any, len(values))
	}
	for i, v := range values {
		switch v := v.(type) {
		case string:
			c.columns[i] = grown(c.columns[i], v)
		case int64:
			c.columns[i] = grown(c.columns[i], v)
		case int16:
			c.columns[i] = grown(c.columns[i], v)
		case bool:
			c.columns[i] = grown(c.columns[i], v)
		case []byte:
			c.columns[i] = grown(c.columns[i], v)
		}
	}
}

func grown[T any](column any, v T) []T {
	values, _ := column.([]T)
	return append(values, v)
}

// args are what the statement's form for n rows takes.
func (c *columnsOf) args() []any {
	if c.n == 1 {
		return c.row(0)
	}
	return c.columns
}

// row is what the statement's form for one row takes, for the row at i.
func (c *columnsOf) row(i int) []any {
	args := make([]any, len(c.columns))
	for at, column := range c.columns {
		switch column := column.(type) {
		case []string:
			args[at] = column[i]
		case []int64:
			args[at] = column[i]
		case []int16:
			args[at] = column[i]
		case []bool:
			args[at] = column[i]
		case [][]byte:
			args[at] = column[i]
		}
	}
	return args
}

// queue adds the statement for the rows to a batch.
func (c *columnsOf) queue(b *pgx.Batch, sql byKeys) { b.Queue(sql.of(c.n), c.args()...) }

func (c *columnsOf) addKey(k oncekeeper.Key) { c.add(k.Tenant, k.Operation, k.ID) }
