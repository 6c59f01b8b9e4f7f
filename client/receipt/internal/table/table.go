// Package table owns the table of receipts: its schema and its statements, one
// text for every dialect, and what a row means. It runs them on a connection or in
// a transaction that it is given, and knows no driver.
package table

import (
	_ "embed" // the schemas
	"strings"
)

// Name is the table's.
const Name = "oncekeeper_receipts"

// Dialect is how a database speaks.
type Dialect struct {
	// Schema creates the table.
	Schema string
	// now is microseconds since the Unix epoch by the database's clock, and standby
	// true on a server that repeats what another one writes.
	now, standby string
	// parameter begins one.
	parameter string
}

//go:embed postgres.sql
var postgres string

//go:embed sqlite.sql
var sqlite string

// The dialects.
var (
	Postgres = Dialect{
		Schema:    postgres,
		now:       "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)",
		standby:   "pg_is_in_recovery()",
		parameter: "$",
	}
	SQLite = Dialect{
		Schema:    sqlite,
		now:       "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000",
		standby:   "FALSE",
		parameter: "?",
	}
)

// Table is the statements in one dialect.
type Table struct{ claim, apply, close, look, old, delete string }

// New gives the statements on the table in schema; empty: where an unqualified name
// leads.
func New(d Dialect, schema string) *Table {
	name := Name
	if schema != "" {
		name = `"` + strings.ReplaceAll(schema, `"`, `""`) + `".` + Name
	}
	say := strings.NewReplacer("{table}", name, "{now}", d.now, "{standby}", d.standby, "$", d.parameter).Replace
	return &Table{
		claim: say(claim), apply: say(apply), close: say(closing),
		look: say(look), old: say(old), delete: say(remove),
	}
}

// claim states receipt.Claimed in SQL, and closing receipt.Closed: receipttest
// holds them together.
const (
	claim = `INSERT INTO {table} AS r (tenant, operation, id, fingerprint_scheme, fingerprint, token, floor, in_doubt, written)
VALUES ($1, $2, $3, $4, $5, $6, 0, TRUE, {now})
ON CONFLICT (tenant, operation, id) DO UPDATE
SET fingerprint_scheme = excluded.fingerprint_scheme, fingerprint = excluded.fingerprint, token = excluded.token,
    in_doubt = TRUE, written = excluded.written
WHERE r.response IS NULL AND NOT r.in_doubt AND r.floor <= excluded.token`

	apply = `UPDATE {table} SET response = $5, in_doubt = FALSE
WHERE tenant = $1 AND operation = $2 AND id = $3 AND token = $4 AND in_doubt AND response IS NULL`

	closing = `INSERT INTO {table} AS r (tenant, operation, id, fingerprint_scheme, fingerprint, token, floor, in_doubt, written)
VALUES ($1, $2, $3, $4, $5, 0, $6, FALSE, {now})
ON CONFLICT (tenant, operation, id) DO UPDATE
SET floor = CASE WHEN r.floor > excluded.floor THEN r.floor ELSE excluded.floor END, written = excluded.written
WHERE r.response IS NULL AND NOT r.in_doubt`

	// look gives one row always, so that a standby is found out.
	look = `SELECT {standby}, r.tenant IS NOT NULL, coalesce(r.fingerprint_scheme, ''), r.fingerprint,
    coalesce(r.floor, 0), coalesce(r.token, 0), coalesce(r.in_doubt, FALSE), coalesce(r.written, 0), r.response
FROM (SELECT 1 AS one) AS o LEFT JOIN {table} AS r ON r.tenant = $1 AND r.operation = $2 AND r.id = $3`

	old = `SELECT tenant, operation, id, fingerprint_scheme, fingerprint, floor, token, in_doubt, written
FROM {table} WHERE written < $1 AND (tenant, operation, id) > ($2, $3, $4)
ORDER BY tenant, operation, id LIMIT $5`

	remove = `DELETE FROM {table} WHERE tenant = $1 AND operation = $2 AND id = $3 AND written < $4`
)
