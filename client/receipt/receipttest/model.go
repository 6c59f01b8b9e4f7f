package receipttest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// testModel runs random sequences of all that can be done with two keys, and holds
// each answer, and the row left, to the pure rules.
func testModel(t *testing.T, b Backend) {
	db := b.Open(t, "")
	keys := []oncekeeper.Key{keyOf("one"), keyOf("two")}
	rapid.Check(t, func(r *rapid.T) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, k := range keys {
			if _, err := db.Delete(ctx, k, time.Now().Add(time.Hour)); err != nil {
				r.Fatal(err)
			}
		}
		m := model{rows: map[oncekeeper.Key]*receipt.Receipt{}}
		claims := rapid.Custom(func(r *rapid.T) receipt.Claim {
			return receipt.Claim{
				Key:               rapid.SampledFrom(keys).Draw(r, "key"),
				Token:             rapid.Int64Range(0, 5).Draw(r, "token"),
				FingerprintScheme: rapid.SampledFrom([]string{"raw", "pb1"}).Draw(r, "scheme"),
				Fingerprint:       []byte(rapid.SampledFrom([]string{"a", "b"}).Draw(r, "fingerprint")),
			}
		})
		r.Repeat(map[string]func(*rapid.T){
			"apply": func(r *rapid.T) {
				c, answer := claims.Draw(r, "claim"), rapid.SampledFrom([]string{"x", "y", ""}).Draw(r, "answer")
				fails := rapid.Bool().Draw(r, "fails")
				p := &receipt.Permit{Claim: c, Codec: Text{}}
				ran := false
				got, err := db.InTx(receipt.WithPermit(ctx, p), func(context.Context, Tx) (string, error) {
					if ran = true; fails {
						return "", errFunction
					}
					return answer, nil
				})
				want := m.apply(c, answer, fails)
				if got != want.answer || !errors.Is(err, want.err) || ran != want.ran || !reflect.DeepEqual(p.Applied(), want.applied) {
					r.Fatalf("%+v gave %q, %v (ran: %v, permit: %+v), want %+v", c, got, err, ran, p.Applied(), want)
				}
				if gone := oncekeeper.IsRolledBack(err); gone != (err != nil) {
					r.Fatalf("%v is marked as rolled back: %v", err, gone)
				}
			},
			"close": func(r *rapid.T) {
				c, floor := claims.Draw(r, "claim"), rapid.Int64Range(1, 6).Draw(r, "floor")
				got, err := db.Close(ctx, c, floor)
				if err != nil {
					r.Fatal(err)
				}
				closed := receipt.Closed(m.rows[c.Key], c, floor)
				m.rows[c.Key] = &closed
				m.same(r, got, c.Key)
			},
			"delete": func(r *rapid.T) {
				k := rapid.SampledFrom(keys).Draw(r, "key")
				deleted, err := db.Delete(ctx, k, time.Now().Add(time.Hour))
				if want := m.rows[k] != nil; err != nil || deleted != want {
					r.Fatalf("Delete gave %v, %v, want %v", deleted, err, want)
				}
				delete(m.rows, k)
			},
			"": func(r *rapid.T) {
				for _, k := range keys {
					got, err := db.Look(ctx, k)
					if err != nil {
						r.Fatal(err)
					}
					m.same(r, got, k)
				}
			},
		})
	})
}

// model is the rules and the rows that they leave.
type model struct {
	rows map[oncekeeper.Key]*receipt.Receipt
}

type applied struct {
	answer  string
	err     error
	ran     bool
	applied *oncekeeper.Response
}

func (m *model) apply(c receipt.Claim, answer string, fails bool) applied {
	before := m.rows[c.Key]
	duplicate, err := receipt.Claimed(before, c)
	switch {
	case err != nil:
		return applied{err: err}
	case duplicate:
		return applied{answer: string(before.Response.Body), applied: before.Response}
	case fails:
		return applied{err: errFunction, ran: true}
	}
	row := receipt.Receipt{
		Key: c.Key, Token: c.Token, FingerprintScheme: c.FingerprintScheme, Fingerprint: c.Fingerprint,
		Response: responseOf(answer),
	}
	if before != nil {
		row.Floor = before.Floor
	}
	m.rows[c.Key] = &row
	return applied{answer: answer, ran: true, applied: row.Response}
}

func (m *model) same(r *rapid.T, got *receipt.Receipt, key oncekeeper.Key) {
	want := m.rows[key]
	if got != nil {
		row := *got
		row.Written = time.Time{}
		got = &row
	}
	if !reflect.DeepEqual(got, want) {
		r.Fatalf("the receipt of %s is %+v, want %+v", key.ID, got, want)
	}
}
