package postgres

import (
	"fmt"
	"strings"
)

// sqlClock is how a statement reads the store's clock, in microseconds since the
// Unix epoch: at the start of its transaction, and when it gets there.
type sqlClock struct{ start, now string }

var databaseClock = sqlClock{
	start: `(extract(epoch FROM now()) * 1000000)::bigint`,
	now:   `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`,
}

// statements are the SQL of a store. Of those that take keys, one takes one key,
// which is planned and sent at the least cost, and many takes arrays.
type statements struct {
	writable  string
	clock     string
	seen      string
	read      byKeys
	sizes     byKeys
	lock      byKeys
	begin     byKeys
	settle    byKeys
	place     byKeys
	write     byKeys
	remove    byKeys
	sweepFind string
	sweepPast byKeys
	sweepDrop byKeys
	sweepDry  string
	listByKey string
	listByAge string
	listReach string
}

type byKeys struct{ one, many string }

func (b byKeys) of(n int) string {
	if n == 1 {
		return b.one
	}
	return b.many
}

// newStatements fills the clock in, and for $input the rows to work on.
func newStatements(clock sqlClock) statements {
	fill := strings.NewReplacer("$start", clock.start, "$now", clock.now, "$columns", columns).Replace
	keyed := func(text, types string) byKeys {
		var names, arrays, scalars []string
		for i, column := range strings.Split("tenant text, operation text, id text"+types, ", ") {
			name, kind, _ := strings.Cut(column, " ")
			names = append(names, name)
			arrays = append(arrays, fmt.Sprintf("$%d::%s[]", i+1, kind))
			scalars = append(scalars, fmt.Sprintf("$%d::%s", i+1, kind))
		}
		text = fill(text)
		list := func(from []string) string { return strings.Join(from, ", ") }
		return byKeys{
			one:  strings.ReplaceAll(text, "$input", "(VALUES ("+list(scalars)+")) AS i ("+list(names)+")"),
			many: strings.ReplaceAll(text, "$input", "unnest("+list(arrays)+") AS i ("+list(names)+")"),
		}
	}
	return statements{
		writable:  `SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'`,
		clock:     fill(`SELECT $now`),
		seen:      fill(seenSQL),
		read:      keyed(readSQL, ""),
		sizes:     keyed(sizesSQL, ""),
		lock:      keyed(lockSQL, ""),
		begin:     keyed(beginSQL, beginInput),
		settle:    keyed(settleSQL, settleInput),
		place:     keyed(placeSQL, ""),
		write:     keyed(writeSQL, writeInput),
		remove:    keyed(removeSQL, ""),
		sweepFind: fill(sweepFindSQL),
		sweepPast: keyed(sweepPastSQL, ", until bigint"),
		sweepDrop: keyed(sweepDropSQL, ", token bigint, until bigint"),
		sweepDry:  fill(sweepDrySQL),
		listByKey: fill(listByKeySQL),
		listByAge: fill(listByAgeSQL),
		listReach: listReachSQL,
	}
}

// seenSQL ends a transaction that has read what an answer rests on: the clock, and
// whether the server may be written to. A record can be seen before a synchronous
// standby has it, once a commit's wait for it was ended, by an operator or a restart;
// so where commits wait, the transaction writes something, and waits for all that it
// has seen.
const seenSQL = `
SELECT $now, current_setting('transaction_read_only') = 'on',
	CASE WHEN current_setting('transaction_read_only') = 'off' AND current_setting('synchronous_standby_names') <> ''
		AND current_setting('synchronous_commit') NOT IN ('off', 'local')
	THEN pg_logical_emit_message(true, 'oncekeeper', ''::text) END IS NOT NULL`

// columns are what makes a record, as scanRecord takes them.
const columns = `r.tenant, r.operation, r.id, r.token, r.revision, r.created, r.lease_end, r.unsettled_until,
	r.expires, r.settled, r.sweep_at, r.lease, r.retention, r.state, r.last, r.takeover, r.hold, r.granted, r.outcome`

const sameKey = `r.tenant = i.tenant AND r.operation = i.operation AND r.id = i.id`

const readSQL = `SELECT $columns FROM $input JOIN oncekeeper_records AS r ON ` + sameKey

// sizesSQL gives how large the outcomes are that a Begin is answered with.
const sizesSQL = `
SELECT r.tenant, r.operation, r.id, octet_length(r.outcome)::bigint
FROM $input JOIN oncekeeper_records AS r ON ` + sameKey + ` WHERE r.state + 0 IN (3, 4) AND r.outcome IS NOT NULL`

// lockSQL locks rows in key order, so that no two that lock wait for each other.
const lockSQL = readSQL + ` ORDER BY r.tenant, r.operation, r.id FOR UPDATE OF r`

// beginSQL is the rule of lifecycle for a Begin of a key that has no record; its
// lease, and all that follows from it, counts from the start of the transaction.
// It gives too when the row was written: a wait for another's insert lies between.
const beginSQL = `
INSERT INTO oncekeeper_records AS r (
	tenant, operation, id, token, revision, created, lease_end, unsettled_until, expires, settled, sweep_at,
	lease, retention, state, last, takeover, hold, granted)
SELECT i.tenant, i.operation, i.id, greatest(1, c.now), 1, c.now, c.now + i.lease, c.now + i.lease + i.unsettled,
	CASE WHEN i.hold THEN 0 ELSE greatest(c.now + i.lease + i.unsettled, c.now + 1) END, 0,
	c.now + CASE WHEN i.hold THEN greatest(i.retention, i.lease) ELSE least(greatest(i.retention, i.lease), i.lease + i.unsettled) END,
	i.lease, i.retention, 1, 0, false, i.hold, i.granted
FROM $input CROSS JOIN (SELECT $start AS now) AS c
ON CONFLICT (tenant, operation, id) DO NOTHING
RETURNING r.tenant, r.operation, r.id, r.created, $now`

const beginInput = `, lease bigint, retention bigint, unsettled bigint, hold boolean, granted bytea`

// settleSQL is the rule of lifecycle for the first settlement of an attempt as
// completed, failed or, where no effect may stand from before, released. What the
// row must be is compared with the input, 1 for pending and 0 for nothing said:
// of a constant the planner would guess that few rows fit, and look at all.
const settleSQL = `
UPDATE oncekeeper_records AS r
SET state = i.state, last = i.last, outcome = i.outcome, revision = r.revision + 1, settled = c.now,
	expires = greatest(c.now + greatest(CASE i.retention WHEN 0 THEN r.retention ELSE i.retention END, r.lease), r.token + 1),
	sweep_at = least(r.sweep_at, greatest(c.now + greatest(CASE i.retention WHEN 0 THEN r.retention ELSE i.retention END, r.lease), r.token + 1))
FROM $input CROSS JOIN (SELECT $start AS now) AS c
WHERE ` + sameKey + `
	AND r.token = i.token AND r.state = i.pending AND r.last = i.silent AND (r.expires = 0 OR r.expires > c.now)
	AND NOT (i.state = 2 AND r.takeover)
RETURNING r.tenant, r.operation, r.id, r.token, r.revision, r.created, r.lease_end, r.unsettled_until,
	r.expires, r.settled, r.sweep_at, r.lease, r.retention, r.state, r.last, r.takeover, r.hold, r.granted, NULL::bytea`

const settleInput = `, token bigint, state smallint, last smallint, retention bigint, outcome bytea, pending smallint, silent smallint`

// placeSQL takes a key for this transaction: whoever else begins it waits. The row
// is written again, or removed, before the transaction ends.
const placeSQL = `
INSERT INTO oncekeeper_records AS r (
	tenant, operation, id, token, revision, created, lease_end, unsettled_until, expires, settled, sweep_at,
	lease, retention, state, last, takeover, hold, granted)
SELECT i.tenant, i.operation, i.id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, false, ''::bytea
FROM $input
ON CONFLICT (tenant, operation, id) DO NOTHING
RETURNING r.tenant, r.operation, r.id`

const writeSQL = `
UPDATE oncekeeper_records AS r
SET token = i.token, revision = i.revision, created = i.created, lease_end = i.lease_end,
	unsettled_until = i.unsettled_until, expires = i.expires, settled = i.settled, sweep_at = i.sweep_at,
	lease = i.lease, retention = i.retention, state = i.state, last = i.last, takeover = i.takeover, hold = i.hold,
	granted = i.granted, outcome = i.outcome
FROM $input
WHERE ` + sameKey

const writeInput = `, token bigint, revision bigint, created bigint, lease_end bigint, unsettled_until bigint, ` +
	`expires bigint, settled bigint, sweep_at bigint, lease bigint, retention bigint, state smallint, last smallint, ` +
	`takeover boolean, hold boolean, granted bytea, outcome bytea`

const removeSQL = `DELETE FROM oncekeeper_records AS r USING $input WHERE ` + sameKey
