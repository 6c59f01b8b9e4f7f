package postgres

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// maxScanned bounds what one List reads: a page may come short, with a Next.
const maxScanned = 20_000

const listScope = `
	AND ($4 = '' OR r.tenant = $4) AND ($5 = '' OR r.operation = $5) AND r.id LIKE $6
	AND r.created >= $7 AND r.created < $8`

const listByKeySQL = `
SELECT $columns FROM oncekeeper_records AS r
WHERE (r.tenant, r.operation, r.id) > ($1, $2, $3)` + listScope + `
ORDER BY r.tenant, r.operation, r.id LIMIT $9`

// listReachSQL gives how far in the order of lease ends a number of rows reaches,
// from the index alone.
const listReachSQL = `SELECT lease_end FROM oncekeeper_records WHERE lease_end >= $1 ORDER BY lease_end OFFSET $2 LIMIT 1`

const listByAgeSQL = `
SELECT $columns FROM oncekeeper_records AS r
WHERE r.state = 1 AND (r.lease_end, r.tenant, r.operation, r.id) > ($10, $1, $2, $3) AND r.lease_end <= $11` + listScope + `
ORDER BY r.lease_end, r.tenant, r.operation, r.id LIMIT $9`

// List implements storage.Store.
func (s *Store) List(ctx context.Context, q storage.ListQuery) (storage.Page, error) {
	at := cursor{Order: q.Order, LeaseEnd: math.MinInt64}
	if q.After != "" {
		var ok bool
		if at, ok = readCursor(q.After, q.Order); !ok {
			return storage.Page{}, fmt.Errorf("%w: page_token is not one that this listing gave", oncekeeper.ErrInvalidRequest)
		}
	}
	chunk := s.chunkByKey
	if q.Order == storage.ByAge {
		chunk = s.chunkByAge
	}
	var page storage.Page
	for scanned := 0; ; {
		// The first statement reads what a page takes where all fit, and one to tell
		// whether it is the last; where most do not fit, the next ones read more.
		c, err := chunk(ctx, q, at, min(max(q.Limit-len(page.Records)+1, scanned), 1000))
		if err != nil {
			return storage.Page{}, err
		}
		page.Now = c.now
		for _, rec := range c.records {
			if len(page.Records) == q.Limit {
				page.Next = at.text()
				return page, nil
			}
			at = cursorAt(rec, q.Order)
			if listed(rec, q, c.now) {
				page.Records = append(page.Records, rec)
			}
		}
		if c.end {
			return page, nil
		}
		at = c.next
		if scanned += c.scanned; scanned >= maxScanned {
			page.Next = at.text()
			return page, nil
		}
	}
}

// chunk is a part of a listing as it is read.
type chunk struct {
	records []*oncekeeper.KeyRecord
	now     oncekeeper.Instant
	scanned int
	next    cursor
	end     bool
}

func (s *Store) chunkByKey(ctx context.Context, q storage.ListQuery, at cursor, want int) (chunk, error) {
	var c chunk
	err := s.read(ctx, tripList, func(ctx context.Context, conn *pgxpool.Conn) error {
		b := &pgx.Batch{}
		b.Queue(s.sql.listByKey, listArgs(q, at, want)...)
		return c.read(ctx, conn, b, s.sql.seen)
	})
	c.scanned, c.end = len(c.records), len(c.records) < want
	if !c.end {
		c.next = cursorAt(c.records[want-1], q.Order)
	}
	return c, err
}

// ageReach is how many rows one statement looks at, settled ones too: no index has
// the pending alone, since each settlement would then have to change it.
const ageReach = 5_000

func (s *Store) chunkByAge(ctx context.Context, q storage.ListQuery, at cursor, want int) (chunk, error) {
	c := chunk{scanned: ageReach}
	reach := int64(math.MaxInt64)
	err := s.read(ctx, tripList, func(ctx context.Context, conn *pgxpool.Conn) error {
		err := conn.QueryRow(ctx, s.sql.listReach, at.LeaseEnd, ageReach).Scan(&reach)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(s.sql.listByAge, append(listArgs(q, at, want), at.LeaseEnd, reach)...)
		return c.read(ctx, conn, b, s.sql.seen)
	})
	switch {
	case len(c.records) == want:
		c.next = cursorAt(c.records[want-1], q.Order)
	case reach < math.MaxInt64:
		c.next = cursor{Order: q.Order, LeaseEnd: reach + 1}
	default:
		c.end = true
	}
	return c, err
}

func listArgs(q storage.ListQuery, at cursor, want int) []any {
	to := int64(q.CreatedTo)
	if to == 0 {
		to = math.MaxInt64
	}
	return []any{at.Tenant, at.Operation, at.ID, q.Tenant, q.Operation, likePrefix(q.IDPrefix), int64(q.CreatedFrom), to, int64(want)}
}

// read runs the statement of b, and reads the clock behind it.
func (c *chunk) read(ctx context.Context, conn *pgxpool.Conn, b *pgx.Batch, moment string) error {
	c.records = nil
	b.Queue(moment)
	br := conn.SendBatch(ctx, b)
	err := each(br, func(rows pgx.Rows) error {
		r, err := scanRecord(rows)
		c.records = append(c.records, r.rec)
		return err
	})
	if err == nil {
		c.now, err = seen(br)
	}
	return closed(br, err)
}

// likePrefix gives a pattern that what begins with prefix fits, and little else:
// a part of a character cannot be said in it, and listed looks again.
func likePrefix(prefix string) string {
	whole := prefix
	for !utf8.ValidString(whole) {
		whole = whole[:len(whole)-1]
	}
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(whole) + "%"
}

// listed holds every rule of what a query selects; the SQL only reads less.
func listed(rec *oncekeeper.KeyRecord, q storage.ListQuery, now oncekeeper.Instant) bool {
	return !lifecycle.Gone(rec, now) && strings.HasPrefix(rec.Key.ID, q.IDPrefix) &&
		(len(q.States) == 0 || slices.Contains(q.States, lifecycle.StateAt(rec, now)))
}

// cursor is how far a listing is: behind the record that it names.
type cursor struct {
	Order     storage.Order `json:"o"`
	LeaseEnd  int64         `json:"e,omitempty"`
	Tenant    string        `json:"t"`
	Operation string        `json:"p"`
	ID        string        `json:"i"`
}

func cursorAt(rec *oncekeeper.KeyRecord, order storage.Order) cursor {
	c := cursor{Order: order, Tenant: rec.Key.Tenant, Operation: rec.Key.Operation, ID: rec.Key.ID}
	if order == storage.ByAge {
		c.LeaseEnd = int64(rec.LeaseEnd)
	}
	return c
}

func (c cursor) text() string {
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and numbers
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func readCursor(text string, order storage.Order) (c cursor, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &c) != nil {
		return c, false
	}
	nul := strings.ContainsRune(c.Tenant+c.Operation+c.ID, 0)
	return c, c.Order == order && (c.Tenant != "" || order == storage.ByAge) && !nul
}
