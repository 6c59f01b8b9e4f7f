package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/oncekeeper/oncekeeper/migrations"
)

// Plan is how commands become statements. Both answer alike.
type Plan string

const (
	// PlanAuto takes the plan by what the server says it is: PlanSingle on Citus with
	// the table distributed, CockroachDB and YugabyteDB, else PlanMany.
	PlanAuto Plan = ""
	// PlanMany has a statement take many keys, so that many calls share a commit. It
	// is for one database on one node.
	PlanMany Plan = "many"
	// PlanSingle has a statement, and a transaction, take one key, so that a
	// distributed engine need not commit on several nodes at once. Each connection
	// has some under way, and a failure is that of one key.
	//
	// # Time
	//
	// A statement that writes may read no clock that moves: it runs on the node that
	// has its key, and the clock that decides is that of the node which was asked.
	// So a first grant and a settlement are judged at the start of their transaction,
	// which may lie before a wait, for another's uncommitted insert of the key, for a
	// lock, for a node. Why that is no harm:
	//
	//   - A lease is never told longer than it is stored. Both are counted from the
	//     start of the transaction, and a caller counts what it is told from when it
	//     sent its Begin, which is earlier: what waited, it has waited through too.
	//   - A grant with little time left is not run as it is. Callers renew it first,
	//     by that count. And how long a statement was under way is measured here, on
	//     the monotonic clock, from before it was sent: where it was long the Begin is
	//     judged again by its call id, under the lock, which starts a lease anew that
	//     ran out; without a call id the answer is given with what is left.
	//   - A settlement whose transaction started before the record's expiry and that
	//     was written behind it stands as it would have, had it been written then. If
	//     the key was begun anew meanwhile, its token is another, and nothing is
	//     written.
	//   - Tokens grow. A first grant is written only where no row is; one that it
	//     waited for and that stays, or that came since, makes it write nothing. A row
	//     that was granted and swept since its transaction started could have had a
	//     greater token: but a sweep deletes only what expired a grace ago, twenty
	//     minutes unless it is changed, and a statement that is under way for longer
	//     than Config.WriteTimeout loses its connection. Every other grant reads the
	//     clock under the lock, in a statement of its own, and takes a token greater
	//     than the stored one.
	PlanSingle Plan = "single"
)

// Plan gives the plan that the store goes by, and why, in words.
func (s *Store) Plan() (plan Plan, why string) { return s.plan, s.why }

// choice is the plan that a store goes by, and why.
type choice struct {
	plan Plan
	why  string
	// standbys: the server replicates as Postgres does, to standbys that it can wait for.
	standbys bool
}

// choose takes the plan that is asked for, or the one that fits the server.
func choose(ctx context.Context, db *sql.DB, asked Plan) (choice, error) {
	fits, err := fitting(ctx, db)
	switch {
	case err != nil || asked == PlanAuto:
		return fits, err
	case asked == PlanMany || asked == PlanSingle:
		return choice{plan: asked, why: "it was asked for", standbys: fits.standbys}, nil
	default:
		return choice{}, fmt.Errorf("no plan is called %q: give %s or %s, or none to take the one that fits", asked, PlanMany, PlanSingle)
	}
}

// fitting goes by what the server says that it is.
func fitting(ctx context.Context, db *sql.DB) (choice, error) {
	var version string
	if err := db.QueryRowContext(ctx, `SELECT version()`).Scan(&version); err != nil {
		return choice{}, fmt.Errorf("asking the server's version: %w", err)
	}
	switch {
	case strings.HasPrefix(version, "CockroachDB"):
		return choice{plan: PlanSingle, why: "the server is CockroachDB"}, nil
	case strings.Contains(version, "-YB-"):
		return choice{plan: PlanSingle, why: "the server is YugabyteDB"}, nil
	}
	switch spread, err := migrations.Spread(ctx, db); {
	case err != nil:
		return choice{}, err
	case spread == migrations.Distributed:
		return choice{PlanSingle, "the server is Citus, and the records are distributed", true}, nil
	case spread == migrations.OneNode:
		return choice{PlanMany, "the server is Citus, and the records are on one node (oncekeeper migrate up --distribute spreads them)", true}, nil
	default:
		return choice{PlanMany, "the server is one node", true}, nil
	}
}
