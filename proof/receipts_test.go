package proof

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
	"github.com/oncekeeper/oncekeeper/proof/internal/stage"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// The invariants of operations that leave receipts.
const (
	oneEffect       = "one effect"
	noRefusalBeside = "no refusal beside an effect"
	sameAnswer      = "one answer for everyone"
)

const (
	operationsAtOnce = 12
	callersEach      = 5
	// shopLease is short, so that attempts are taken over from holders who live on.
	shopLease = 120 * time.Millisecond
)

// shop is a business whose operations leave receipts, and what its callers were told.
type shop struct {
	db       *sql.DB
	receipts *sqlreceipt.Store
	// asked is what guards ask: the receipts, or those with a rule left out.
	asked   receipt.Store
	keepers []*client.Client
	tenant  string

	mu       sync.Mutex
	values   map[string][]string
	refusals map[string][]string
	unknown  int
}

func newShop(t *testing.T, s *stage.Stage, seed uint64) *shop {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(off)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, schema := range []string{"CREATE TABLE effects (key TEXT, reference TEXT)", sqlreceipt.SQLite.Schema()} {
		if _, err := db.Exec(schema); err != nil {
			t.Fatal(err)
		}
	}
	w := &shop{db: db, tenant: fmt.Sprintf("shop-%d", seed), values: map[string][]string{}, refusals: map[string][]string{}}
	if w.receipts, err = sqlreceipt.New(sqlreceipt.Config{DB: db, Dialect: sqlreceipt.SQLite}); err != nil {
		t.Fatal(err)
	}
	w.asked = w.receipts
	for _, conn := range s.Conns() {
		for _, through := range []grpc.ClientConnInterface{conn, mute{conn}} {
			w.keepers = append(w.keepers, client.New(through, client.WithLogger(slog.New(slog.DiscardHandler))))
		}
	}
	return w
}

// mute loses every renewal: its holders outlive their leases and do not know.
type mute struct{ grpc.ClientConnInterface }

func (m mute) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if strings.HasSuffix(method, pb.IdempotencyService_Renew_FullMethodName) {
		return status.Error(codes.Unavailable, "a renewal is lost")
	}
	return m.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// trade has callers ask for operations until all were asked for.
func (w *shop) trade(ctx context.Context, seed uint64, operations int, busy func() bool) int {
	var all sync.WaitGroup
	asked := 0
	slots := make(chan struct{}, operationsAtOnce)
	for n := 0; (n < operations || busy()) && ctx.Err() == nil; n++ {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			var callers sync.WaitGroup
			for i := range callersEach {
				callers.Go(func() { w.ask(ctx, fmt.Sprint("order-", n), rand.New(rand.NewPCG(seed, uint64(n*callersEach+i)))) })
			}
			callers.Wait()
		})
		asked = n + 1
	}
	all.Wait()
	return asked
}

// ask asks for an operation, once or twice, and notes what is told.
func (w *shop) ask(ctx context.Context, id string, random *rand.Rand) {
	time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
	key := oncekeeper.Key{Tenant: w.tenant, Operation: "proof.Shop/Order", ID: id}
	for range 3 {
		bounded, cancel := context.WithTimeout(ctx, 3*time.Second)
		value, err := client.Do(bounded, w.keepers[random.IntN(len(w.keepers))], key, w.handler(id, random),
			client.WithReceipts(w.asked), client.WithLease(shopLease), client.WithWait(time.Second))
		cancel()
		failed := (*client.FailedError)(nil)
		w.mu.Lock()
		switch {
		case err == nil:
			w.values[id] = append(w.values[id], value)
		case errors.As(err, &failed), errors.Is(err, errRefused) && !errors.Is(err, oncekeeper.ErrStoreUnavailable) && !errors.Is(err, client.ErrUnavailable) &&
			!errors.Is(err, oncekeeper.ErrFenced) && !errors.Is(err, oncekeeper.ErrAlreadySettled):
			w.refusals[id] = append(w.refusals[id], err.Error())
		default:
			w.unknown++
			w.mu.Unlock()
			continue
		}
		w.mu.Unlock()
		return
	}
}

var errRefused = errors.New("the order is refused")

// handler is what an attempt does: an effect, a refusal, or nothing, and some of them
// long after their lease.
func (w *shop) handler(id string, random *rand.Rand) func(context.Context, *client.Attempt) (string, error) {
	late, what := time.Duration(0), random.IntN(100)
	if random.IntN(3) == 0 {
		late = time.Duration(random.IntN(500)) * time.Millisecond
	}
	reference := fmt.Sprintf("%s-%d", id, random.Uint64())
	return func(ctx context.Context, _ *client.Attempt) (string, error) {
		ctx = context.WithoutCancel(ctx) // a holder that does not look whether it still is one
		time.Sleep(late)
		switch {
		case what < 30:
			return "", oncekeeper.Final(errRefused)
		case what < 40:
			return "", oncekeeper.NotApplied(errors.New("not now"))
		}
		value, err := sqlreceipt.InTx(ctx, w.receipts, func(ctx context.Context, tx *sql.Tx) (string, error) {
			_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?, ?)", id, reference)
			return reference, err
		})
		if err == nil && what > 90 {
			return "", errors.New("the answer is lost")
		}
		return value, err
	}
}

// broken gives what was promised and is not so, by name.
func (w *shop) broken(t *testing.T) []string {
	t.Helper()
	effects := map[string][]string{}
	rows, err := w.db.Query("SELECT key, reference FROM effects")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, reference string
		if err := rows.Scan(&id, &reference); err != nil {
			t.Fatal(err)
		}
		effects[id] = append(effects[id], reference)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	var broken []string
	for id, of := range effects {
		if len(of) > 1 {
			broken = append(broken, fmt.Sprintf("%s: %s has %q", oneEffect, id, of))
		}
		if len(w.refusals[id]) > 0 {
			broken = append(broken, fmt.Sprintf("%s: %s has %q, and %q was told", noRefusalBeside, id, of, w.refusals[id]))
		}
	}
	for id, told := range w.values {
		if unique := slices.Compact(slices.Sorted(slices.Values(told))); len(unique) > 1 || len(effects[id]) == 0 || unique[0] != effects[id][0] {
			broken = append(broken, fmt.Sprintf("%s: of %s was told %q, and its effects are %q", sameAnswer, id, told, effects[id]))
		}
	}
	return broken
}

// open has a shop trade on a stage of its own, and gives what is broken.
func open(t *testing.T, tr trial, with func(*shop)) (broken []string, summary string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bounding)
	defer cancel()
	s := stage.New(t, stage.Config{Store: tr.store, Standby: slices.Contains(tr.faults, stage.Failover)})
	w := newShop(t, s, tr.seed)
	if with != nil {
		with(w)
	}
	over := make(chan struct{})
	began := time.Now()
	var befell []stage.Befell
	go func() {
		defer close(over)
		befell = s.Act(ctx, stage.Plan(tr.seed, tr.faults, tr.operations, tr.spacing), func() int { return w.told() })
	}()
	asked := w.trade(ctx, tr.seed, tr.operations, func() bool {
		select {
		case <-over:
			return false
		default:
			return true
		}
	})
	<-over
	s.Stop()
	effects, refused := 0, 0
	for range w.values {
		effects++
	}
	for range w.refusals {
		refused++
	}
	return w.broken(t), fmt.Sprintf("%s: %d operations of %d callers each, %d with an effect, %d refused, %d calls told neither, faults %q, in %v",
		tr.store, asked, callersEach, effects, refused, w.unknown, befell, time.Since(began).Round(time.Millisecond))
}

// told is how many operations someone was told of.
func (w *shop) told() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.values) + len(w.refusals)
}

// shopFaults are those that holders outlive: the clock decides nothing here.
func shopFaults(store stage.Store) []stage.Fault {
	return slices.DeleteFunc(stage.Faults(store), func(f stage.Fault) bool { return f == stage.Step })
}

func TestWithReceiptsThereIsOneEffectAndNoRefusalBesideIt(t *testing.T) {
	first := seed()
	for _, store := range stores() {
		t.Run(string(store), func(t *testing.T) {
			for i := range uint64(*shopsFlag) {
				tr := trial{store: store, seed: first + i, operations: 120, faults: shopFaults(store), spacing: 20}
				broken, summary := open(t, tr, nil)
				for _, b := range broken {
					t.Errorf("seed %d: %s", tr.seed, b)
				}
				t.Log(summary)
			}
		})
	}
}

// floorless writes no floor when it closes.
type floorless struct{ receipt.Store }

func (s floorless) Close(ctx context.Context, c receipt.Claim, floor int64) (*receipt.Receipt, error) {
	found, err := s.Look(ctx, c.Key)
	if found == nil && err == nil {
		found = &receipt.Receipt{Key: c.Key, FingerprintScheme: c.FingerprintScheme, Fingerprint: c.Fingerprint, Floor: floor}
	}
	return found, err
}

func TestAClosingThatWritesNoFloorIsFound(t *testing.T) {
	stage.Build(t)
	began := time.Now()
	first := seed()
	for i := uint64(0); time.Since(began) < toFind; i++ {
		tr := trial{store: stage.Pebble, seed: first + i, operations: 60, spacing: 20}
		broken, _ := open(t, tr, func(w *shop) { w.asked = floorless{w.receipts} })
		if len(broken) > 0 {
			t.Logf("found after %v: %s", time.Since(began).Round(time.Millisecond), broken[0])
			return
		}
	}
	t.Fatalf("not found in %v, from seed %d on", toFind, first)
}
