// Package receipttest is the conformance suite of a receipt.Store and its InTx: it
// holds what they say in SQL to the rules of package receipt, and what they say of a
// transaction to what its database then shows.
package receipttest

import (
	"context"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// Backend is a kind of database, as Run needs it.
type Backend struct {
	// Isolations are the levels that its transactions may have, by name.
	Isolations []string
	// Open gives a fresh database with the table of receipts and a table of effects,
	// which is gone when the test ends.
	Open func(t *testing.T, isolation string) Database
	// OpenCut is Open at the default isolation, with a Cutter on every connection
	// that InTx uses.
	OpenCut func(t *testing.T) (Database, Cutter)
}

// Database is one that is being tested.
type Database interface {
	receipt.Store
	// InTx is the driver's, for a value that is text.
	InTx(ctx context.Context, fn func(ctx context.Context, tx Tx) (string, error)) (string, error)
	// Effects counts the committed effects of that name.
	Effects(t *testing.T, name string) int
	// AwaitWaiting returns when so many transactions wait for another one to end.
	AwaitWaiting(t *testing.T, n int)
	// OneWriter: a second transaction waits before its function, whatever the key.
	OneWriter() bool
	// DropTable drops the table of receipts.
	DropTable(t *testing.T)
}

// Tx is the driver's transaction, as the suite's functions use it.
type Tx interface {
	// Effect adds an effect of that name.
	Effect(ctx context.Context, name string) error
	// Count reads how many effects of that name the transaction sees.
	Count(ctx context.Context, name string) (int, error)
	// Fail runs a statement that the database refuses.
	Fail(ctx context.Context) error
	// End ends the transaction by hand, in a way that the driver lets pass.
	End(commit bool) error
}

// Cutter breaks connections.
type Cutter interface {
	// Cut breaks the connection that makes the nth request from now (0...): before it
	// reaches the database, or behind it, so that its answer is lost.
	Cut(nth int, behind bool)
	// Cuts says how many were broken since.
	Cuts() int
}

// patience bounds every wait of the suite; a sound backend never needs it.
const patience = time.Minute

// Run tests b.
func Run(t *testing.T, b Backend) {
	t.Run("Rules", func(t *testing.T) { testRules(t, b) })
	t.Run("Model", func(t *testing.T) { testModel(t, b) })
	t.Run("Functions", func(t *testing.T) { testFunctions(t, b) })
	t.Run("Together", func(t *testing.T) { testTogether(t, b) })
	t.Run("Cuts", func(t *testing.T) { testCuts(t, b) })
}
