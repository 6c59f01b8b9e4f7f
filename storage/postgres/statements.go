package postgres

import (
	"fmt"
	"regexp"
	"strings"
)

// sqlClock is how a statement reads the store's clock, in microseconds since the
// Unix epoch: at the start of its transaction, and when it gets there. A
// distributed engine takes the first alone into a statement that writes, since it
// runs on another node than the one whose clock decides.
type sqlClock struct{ start, now string }

var databaseClock = sqlClock{
	start: `(extract(epoch FROM now()) * 1000000)::bigint`,
	now:   `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`,
}

// statements are the SQL of a store.
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

// byKeys are the two forms of a statement that takes keys. One names its key by
// parameters, so that it is planned at the least cost, and a distributed engine
// sees which node has it; many takes arrays.
type byKeys struct{ one, many string }

func (b byKeys) of(n int) string {
	if n == 1 {
		return b.one
	}
	return b.many
}

// newStatements makes both forms of each statement from one text, in which i is
// the input, c.now the clock at the start, and these are filled in:
//
//	          many                               one
//	$select   SELECT                             VALUES (
//	$end      FROM the input                     )
//	$from     FROM the input                     nothing
//	$using    USING the input                    nothing
//	$beside   the input and a comma              nothing
//	$written  the clock when a row was written   as plan says
//
// In one, i's columns are parameters. Under the plan for single keys $written is
// when the transaction started: no statement there may read a clock that moves.
func newStatements(clock sqlClock, plan Plan, standbys bool) statements {
	written := clock.now
	if plan == PlanSingle {
		written = "r.created"
	}
	fill := strings.NewReplacer("$start", clock.start, "$written", written, "$columns", columns).Replace
	keyed := func(text, types string) byKeys {
		var names, arrays []string
		scalars := map[string]string{}
		for i, column := range strings.Split("tenant text, operation text, id text"+types, ", ") {
			name, kind, _ := strings.Cut(column, " ")
			names = append(names, name)
			arrays = append(arrays, fmt.Sprintf("$%d::%s[]", i+1, kind))
			scalars["i."+name] = fmt.Sprintf("$%d::%s", i+1, kind)
		}
		input := "unnest(" + strings.Join(arrays, ", ") + ") AS i (" + strings.Join(names, ", ") + ")"
		from := "FROM " + input
		if strings.Contains(text, "c.now") {
			from += " CROSS JOIN (SELECT $start AS now) AS c"
		}
		one := strings.NewReplacer("$select", "VALUES (", "$end", ")", "$from", "", "$using", "", "$beside ", "").Replace(text)
		many := strings.NewReplacer("$select", "SELECT", "$end", from, "$from", from, "$using", "USING "+input, "$beside", input+",").Replace(text)
		return byKeys{
			one:  fill(inputColumn.ReplaceAllStringFunc(strings.ReplaceAll(one, "c.now", "$start"), parameters(scalars))),
			many: fill(many),
		}
	}
	seen := `SELECT ` + clock.now + seenSQL
	if standbys {
		seen += waitsSQL
	} else {
		seen += ", false"
	}
	return statements{
		writable:  `SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'`,
		clock:     `SELECT ` + clock.now,
		seen:      seen,
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
		sweepDrop: byKeys{one: keyed(sweepDropOneSQL, sweepDropInput).one, many: keyed(sweepDropManySQL, sweepDropInput).many},
		sweepDry:  fill(sweepDrySQL),
		listByKey: fill(listByKeySQL),
		listByAge: fill(listByAgeSQL),
		listReach: listReachSQL,
	}
}

var inputColumn = regexp.MustCompile(`\bi\.[a-z_]+`)

// parameters puts for each column of the input its parameter.
func parameters(of map[string]string) func(column string) string {
	return func(column string) string {
		if of[column] == "" {
			panic("no column of the input is " + column) // a statement's text is wrong
		}
		return of[column]
	}
}

// seenSQL ends a transaction that has read what an answer rests on: the clock comes
// before it, and it tells whether the server may be written to.
const seenSQL = `, current_setting('transaction_read_only') = 'on'`

// waitsSQL is for a server that has standbys. A record can be seen before a
// synchronous standby has it, once a commit's wait for it was ended, by an operator or
// a restart; so where commits wait, the transaction writes something, and waits for
// all that it has seen.
const waitsSQL = `,
	CASE WHEN current_setting('transaction_read_only') = 'off' AND current_setting('synchronous_standby_names') <> ''
		AND current_setting('synchronous_commit') NOT IN ('off', 'local')
	THEN pg_logical_emit_message(true, 'oncekeeper', ''::text) END IS NOT NULL`

// columns are what makes a record, as scanRecord takes them.
const columns = `r.tenant, r.operation, r.id, r.token, r.revision, r.created, r.lease_end, r.unsettled_until,
	r.expires, r.settled, r.sweep_at, r.lease, r.retention, r.state, r.last, r.takeover, r.hold, r.granted, r.outcome`

const sameKey = `r.tenant = i.tenant AND r.operation = i.operation AND r.id = i.id`

const readSQL = `SELECT $columns FROM $beside oncekeeper_records AS r WHERE ` + sameKey

// sizesSQL gives how large the outcomes are that a Begin is answered with.
const sizesSQL = `
SELECT r.tenant, r.operation, r.id, octet_length(r.outcome)::bigint
FROM $beside oncekeeper_records AS r WHERE ` + sameKey + ` AND r.state + 0 IN (3, 4) AND r.outcome IS NOT NULL`

// lockSQL locks rows in key order, so that no two that lock wait for each other.
const lockSQL = readSQL + ` ORDER BY r.tenant, r.operation, r.id FOR UPDATE OF r`

// beginSQL is the rule of lifecycle for a Begin of a key that has no record; its
// lease, and all that follows from it, counts from the start of the transaction.
// It gives too when the row was written: a wait for another's insert lies between.
const beginSQL = `
INSERT INTO oncekeeper_records AS r (
	tenant, operation, id, token, revision, created, lease_end, unsettled_until, expires, settled, sweep_at,
	lease, retention, state, last, takeover, hold, granted)
$select i.tenant, i.operation, i.id, greatest(1, c.now), 1, c.now, c.now + i.lease, c.now + i.lease + i.unsettled,
	CASE WHEN i.hold THEN 0 ELSE greatest(c.now + i.lease + i.unsettled, c.now + 1) END, 0,
	c.now + CASE WHEN i.hold THEN greatest(i.retention, i.lease) ELSE least(greatest(i.retention, i.lease), i.lease + i.unsettled) END,
	i.lease, i.retention, 1, 0, false, i.hold, i.granted
$end
ON CONFLICT (tenant, operation, id) DO NOTHING
RETURNING r.tenant, r.operation, r.id, r.created, $written`

const beginInput = `, lease bigint, retention bigint, unsettled bigint, hold boolean, granted bytea`

// settleSQL is the rule of lifecycle for the first settlement of an attempt as
// completed, failed or, where no effect may stand from before, released. What the
// row must be is compared with the input, 1 for pending and 0 for nothing said:
// of a constant the planner would guess that few rows fit, and look at all.
const settleSQL = `
UPDATE oncekeeper_records AS r
SET state = i.state, last = i.last, outcome = i.outcome, revision = r.revision + 1, settled = c.now,
	expires = greatest(c.now + greatest(CASE WHEN i.retention = 0 THEN r.retention ELSE i.retention END, r.lease), r.token + 1),
	sweep_at = least(r.sweep_at, greatest(c.now + greatest(CASE WHEN i.retention = 0 THEN r.retention ELSE i.retention END, r.lease), r.token + 1))
$from
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
$select i.tenant, i.operation, i.id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, false, ''::bytea
$end
ON CONFLICT (tenant, operation, id) DO NOTHING
RETURNING r.tenant, r.operation, r.id`

const writeSQL = `
UPDATE oncekeeper_records AS r
SET token = i.token, revision = i.revision, created = i.created, lease_end = i.lease_end,
	unsettled_until = i.unsettled_until, expires = i.expires, settled = i.settled, sweep_at = i.sweep_at,
	lease = i.lease, retention = i.retention, state = i.state, last = i.last, takeover = i.takeover, hold = i.hold,
	granted = i.granted, outcome = i.outcome
$from
WHERE ` + sameKey

const writeInput = `, token bigint, revision bigint, created bigint, lease_end bigint, unsettled_until bigint, ` +
	`expires bigint, settled bigint, sweep_at bigint, lease bigint, retention bigint, state smallint, last smallint, ` +
	`takeover boolean, hold boolean, granted bytea, outcome bytea`

const removeSQL = `DELETE FROM oncekeeper_records AS r $using WHERE ` + sameKey
