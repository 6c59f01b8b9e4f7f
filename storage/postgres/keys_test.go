package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage"
)

// noise gives n bytes of text that no compression makes smaller.
func noise(n int) string {
	var b strings.Builder
	for b.Len() < n {
		r := rune(0xa1 + rand.IntN(0x10000))
		if r >= 0xd800 && r < 0xf900 || r >= 0x2000 && r < 0x2070 || r >= 0xfdd0 {
			continue // surrogates, white space, and what is no character
		}
		if b.Len()+len(string(r)) > n {
			r = 'a' + rune(rand.IntN(26))
		}
		b.WriteRune(r)
	}
	return b.String()
}

// TestKeysOfEveryLengthFitEveryIndex: an entry of an index has 2,704 bytes at the
// most, and text that repeats itself would be compressed to fit.
func TestKeysOfEveryLengthFitEveryIndex(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		b := newBench(t, plan)
		var keys []oncekeeper.Key
		for i := range 40 {
			key := oncekeeper.Key{
				Tenant: noise(oncekeeper.MaxTenantBytes), Operation: noise(oncekeeper.MaxOperationBytes), ID: noise(oncekeeper.MaxIDBytes - 1),
			}
			for last := range 2 {
				twin := key
				twin.ID += fmt.Sprint(last) // they differ in the last byte
				keys = append(keys, twin)
				begin := testBegin("", "this")
				begin.Key = twin
				res := b.apply(begin)
				if res.Err != nil || res.Verdict != lifecycle.Granted {
					t.Fatalf("key %d: %v %v", i, res.Verdict, res.Err)
				}
				settle := testComplete("", res.Record.Token)
				if settle.Key = twin; last == 0 {
					if res := b.apply(settle); res.Refusal() != nil {
						t.Fatalf("key %d: %v", i, res.Refusal())
					}
				}
			}
		}
		snapshot, err := b.Read(t.Context(), keys...)
		if err != nil {
			t.Fatal(err)
		}
		for i, rec := range snapshot.Records {
			want := []oncekeeper.StoredState{oncekeeper.StoredCompleted, oncekeeper.StoredPending}[i%2]
			if rec == nil || rec.Key != keys[i] || rec.State != want {
				t.Errorf("key %d is kept as %+v", i, rec)
			}
		}
		for order, want := range map[storage.Order]int{storage.ByKey: len(keys), storage.ByAge: len(keys) / 2} {
			listed := 0
			for q := (storage.ListQuery{Order: order, Limit: 7}); ; {
				page, err := b.List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				listed += len(page.Records)
				if q.After = page.Next; q.After == "" {
					break
				}
			}
			if listed != want {
				t.Errorf("order %d lists %d, want %d", order, listed, want)
			}
		}
	})
}

func TestKeysThatOthersFoldOrCutAreSeparateOrRefusedOverTheWire(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		b := newBench(t, plan)
		keeper := serveForTest(t, server.Config{Store: b.Store})
		begin := func(id string) error {
			res, err := keeper.Begin(context.Background(), &pb.BeginRequest{Key: &pb.Key{Tenant: "t", Operation: "o", Id: id}})
			if err == nil && res.GetGrant() == nil {
				return fmt.Errorf("%q meets another key's record: %v", id, res)
			}
			return wire.FromError(err, nil)
		}
		longest := strings.Repeat("x", oncekeeper.MaxIDBytes-1)
		for _, id := range []string{"\u00e9", "e\u0301", "K", "k", "\u212a", "k.", "a b", "a  b", longest, longest + "y", longest + "z", "1", "01"} {
			if err := begin(id); err != nil {
				t.Errorf("%q: %v", id, err)
			}
		}
		for about, id := range map[string]string{
			"nothing": "", "a space behind": "k ", "a space before": " k", "no-break space behind": "k\u00a0", "NUL": "k\x00",
			"a line feed": "k\n", "one byte too many": longest + "yy",
			"2,705 bytes": strings.Repeat("x", 2705), "8,192 bytes": strings.Repeat("x", 8192), "8,192 bytes of noise": noise(8192),
		} {
			if err := begin(id); !errors.Is(err, oncekeeper.ErrInvalidRequest) {
				t.Errorf("%s: got %v, want ErrInvalidRequest", about, err)
			}
		}
		var stored int
		if err := connect(t, b.cfg.DSN).QueryRow(t.Context(), `SELECT count(*) FROM oncekeeper_records`).Scan(&stored); err != nil || stored != 13 {
			t.Errorf("%d records are stored, want 13 (%v)", stored, err)
		}
	})
}
