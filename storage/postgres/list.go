package postgres

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// maxScanned bounds what one List reads: a page may come short, with a Next.
const maxScanned = 20_000

const listScope = `
	AND ($5 = '' OR r.tenant = $5) AND ($6 = '' OR r.operation = $6) AND r.id LIKE $7
	AND r.created >= $8 AND r.created < $9`

const listByKeySQL = `
SELECT $columns FROM oncekeeper_records AS r
WHERE (r.tenant, r.operation, r.id) > ($2, $3, $4) AND $1::bigint IS NOT NULL` + listScope + `
ORDER BY r.tenant, r.operation, r.id LIMIT $10`

const listByAgeSQL = `
SELECT $columns FROM oncekeeper_records AS r
WHERE r.state = 1 AND (r.lease_end, r.tenant, r.operation, r.id) > ($1, $2, $3, $4)` + listScope + `
ORDER BY r.lease_end, r.tenant, r.operation, r.id LIMIT $10`

// List implements storage.Store.
func (s *Store) List(ctx context.Context, q storage.ListQuery) (storage.Page, error) {
	at := cursor{LeaseEnd: math.MinInt64}
	if q.After != "" {
		var ok bool
		if at, ok = readCursor(q.After, q.Order); !ok {
			return storage.Page{}, fmt.Errorf("%w: page_token is not one that this listing gave", oncekeeper.ErrInvalidRequest)
		}
	}
	var page storage.Page
	scanned := 0
	for {
		want := min(max(q.Limit-len(page.Records)+1, 100), 1000)
		found, now, err := s.listChunk(ctx, q, at, want)
		if err != nil {
			return storage.Page{}, err
		}
		page.Now = now
		for _, rec := range found {
			if len(page.Records) == q.Limit || scanned == maxScanned {
				page.Next = at.text()
				return page, nil
			}
			scanned++
			at = cursorAt(rec, q.Order)
			if listed(rec, q, now) {
				page.Records = append(page.Records, rec)
			}
		}
		if len(found) < want {
			return page, nil
		}
	}
}

func (s *Store) listChunk(ctx context.Context, q storage.ListQuery, at cursor, want int) (found []*oncekeeper.KeyRecord, now oncekeeper.Instant, err error) {
	sql := s.sql.listByKey
	if q.Order == storage.ByAge {
		sql = s.sql.listByAge
	}
	to := int64(q.CreatedTo)
	if to == 0 {
		to = math.MaxInt64
	}
	err = s.read(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		found = nil
		rows, err := conn.Query(ctx, sql, at.LeaseEnd, at.Tenant, at.Operation, at.ID,
			q.Tenant, q.Operation, likePrefix(q.IDPrefix), int64(q.CreatedFrom), to, int64(want))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r, err := scanRecord(rows)
			if err != nil {
				return err
			}
			found = append(found, r.rec)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return conn.QueryRow(ctx, s.sql.clock).Scan(&now)
	})
	return found, now, err
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

// cursor is the last record of a page.
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
	return c, c.Order == order && c.Tenant != "" && !nul
}
