package receipttest

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// check is one line of what is promised, tried on a database of its own.
type check struct {
	name string
	try  func(*hands)
}

func tryAll(t *testing.T, open func(t *testing.T) Database, checks []check) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.try(grip(t, open(t))) })
	}
}

func testRules(t *testing.T, b Backend) {
	tryAll(t, func(t *testing.T) Database { return b.Open(t, "") }, []check{
		{"a key that nothing was done with has no receipt", func(h *hands) {
			h.wantReceipt(keyOf("k"), nil)
		}},
		{"what was applied is there, whole", func(h *hands) {
			c := claimOf("k", 7)
			got, err, p := h.apply(c, "paid")
			h.wantAnswer(got, err, "paid")
			h.wantReceipt(c.Key, &receipt.Receipt{FingerprintScheme: "raw", Fingerprint: []byte("request"), Token: 7, Response: responseOf("paid")})
			h.wantApplied(p, "paid")
			h.wantEffects("k", 1)
		}},
		{"an empty answer is an answer", func(h *hands) {
			c := receipt.Claim{Key: keyOf("k"), Token: 1}
			got, err, _ := h.apply(c, "")
			h.wantAnswer(got, err, "")
			h.wantReceipt(c.Key, &receipt.Receipt{Token: 1, Response: responseOf("")})
			got, err, _ = h.apply(c, "other")
			h.wantAnswer(got, err, "")
		}},
		{"a duplicate gets the first answer and does nothing, with a smaller token too", func(h *hands) {
			h.must(h.apply(claimOf("k", 7), "first"))
			for _, token := range []int64{7, 8, 3, 0} {
				got, err, p := h.apply(claimOf("k", token), "second")
				h.wantAnswer(got, err, "first")
				h.wantApplied(p, "first")
			}
			h.wantEffects("k", 1)
		}},
		{"another request under the key is refused", func(h *hands) {
			h.must(h.apply(claimOf("k", 7), "first"))
			c := claimOf("k", 8)
			c.Fingerprint = []byte("another")
			_, err, p := h.apply(c, "second")
			h.wantGone(err, oncekeeper.ErrFingerprintMismatch)
			h.wantApplied(p, none)
			c.FingerprintScheme = "pb1"
			got, err, _ := h.apply(c, "second")
			h.wantAnswer(got, err, "first")
			h.wantEffects("k", 1)
		}},
		{"keys whose parts only run together alike are apart", func(h *hands) {
			for _, k := range []oncekeeper.Key{{Tenant: "a", Operation: "b", ID: "cd"}, {Tenant: "a", Operation: "bc", ID: "d"}, {Tenant: "ab", Operation: "c", ID: "d"}, {Tenant: "A", Operation: "b", ID: "cd"}} {
				c := claimOf("", 1)
				c.Key = k
				got, err, _ := h.apply(c, k.ID)
				h.wantAnswer(got, err, k.ID)
			}
			h.wantEffects("cd", 2)
		}},
		{"a floor refuses smaller tokens, and no token", func(h *hands) {
			r, err := h.Close(h.ctx, claimOf("k", 7), 8)
			h.want(err, nil)
			h.sameReceipt(r, &receipt.Receipt{FingerprintScheme: "raw", Fingerprint: []byte("request"), Floor: 8})
			for _, token := range []int64{7, 0} {
				_, err, p := h.apply(claimOf("k", token), "late")
				h.wantGone(err, oncekeeper.ErrFenced)
				h.wantApplied(p, none)
			}
			h.wantEffects("k", 0)
			got, err, _ := h.apply(claimOf("k", 8), "next")
			h.wantAnswer(got, err, "next")
			h.wantReceipt(keyOf("k"), &receipt.Receipt{FingerprintScheme: "raw", Fingerprint: []byte("request"), Floor: 8, Token: 8, Response: responseOf("next")})
		}},
		{"closing again never lowers a floor", func(h *hands) {
			for _, floor := range []int64{8, 5, 9} {
				_, err := h.Close(h.ctx, claimOf("k", 7), floor)
				h.want(err, nil)
			}
			_, err, _ := h.apply(claimOf("k", 8), "late")
			h.wantGone(err, oncekeeper.ErrFenced)
		}},
		{"closing what is applied changes nothing and gives it", func(h *hands) {
			h.must(h.apply(claimOf("k", 7), "paid"))
			r, err := h.Close(h.ctx, claimOf("k", 9), 10)
			h.want(err, nil)
			want := &receipt.Receipt{FingerprintScheme: "raw", Fingerprint: []byte("request"), Token: 7, Response: responseOf("paid")}
			h.sameReceipt(r, want)
			h.wantReceipt(keyOf("k"), want)
		}},
		{"a floor holds no request, so another may follow it", func(h *hands) {
			_, err := h.Close(h.ctx, claimOf("k", 7), 8)
			h.want(err, nil)
			c := claimOf("k", 9)
			c.Fingerprint = []byte("another")
			got, err, _ := h.apply(c, "next")
			h.wantAnswer(got, err, "next")
			h.wantReceipt(c.Key, &receipt.Receipt{FingerprintScheme: "raw", Fingerprint: []byte("another"), Floor: 8, Token: 9, Response: responseOf("next")})
		}},
		{"old receipts come in the order of keys, in pages, without their responses", func(h *hands) {
			ids := []string{"B", "a", "a b", "b", "é"}
			for i := len(ids) - 1; i >= 0; i-- {
				h.must(h.apply(claimOf(ids[i], int64(i+1)), "x"))
			}
			soon := time.Now().Add(time.Hour)
			var got []string
			for after := (oncekeeper.Key{}); ; {
				page, err := h.Old(h.ctx, soon, after, 2)
				h.want(err, nil)
				if len(page) == 0 {
					break
				}
				for _, r := range page {
					got = append(got, r.Key.ID)
					if r.Response != nil || r.Token == 0 || r.FingerprintScheme != "raw" {
						h.Errorf("%+v is not what was asked for", r)
					}
				}
				after = page[len(page)-1].Key
			}
			if !reflect.DeepEqual(got, ids) {
				h.Errorf("old receipts are of %q, want %q", got, ids)
			}
			early, err := h.Old(h.ctx, time.Now().Add(-time.Hour), oncekeeper.Key{}, 10)
			if h.want(err, nil); len(early) != 0 {
				h.Errorf("%d receipts are older than an hour, want none", len(early))
			}
		}},
		{"what was written since is not deleted, and what is deleted runs again", func(h *hands) {
			c := claimOf("k", 7)
			h.must(h.apply(c, "paid"))
			for _, step := range []struct {
				before time.Duration
				want   bool
			}{{-time.Hour, false}, {time.Hour, true}, {time.Hour, false}} {
				deleted, err := h.Delete(h.ctx, c.Key, time.Now().Add(step.before))
				if h.want(err, nil); deleted != step.want {
					h.Errorf("Delete before %v gave %v, want %v", step.before, deleted, step.want)
				}
			}
			h.wantReceipt(c.Key, nil)
			h.must(h.apply(c, "again"))
			h.wantEffects("k", 2)
		}},
		{"without the table every call says how to make it", func(h *hands) {
			h.DropTable(h.T)
			_, err, _ := h.apply(claimOf("k", 1), "x")
			h.wantGone(err, receipt.ErrNoTable)
			_, err = h.Look(h.ctx, keyOf("k"))
			h.want(err, receipt.ErrNoTable)
			_, err = h.Close(h.ctx, claimOf("k", 1), 2)
			h.want(err, receipt.ErrNoTable)
			_, err = h.Old(h.ctx, time.Now(), oncekeeper.Key{}, 1)
			h.want(err, receipt.ErrNoTable)
			_, err = h.Delete(h.ctx, keyOf("k"), time.Now())
			h.want(err, receipt.ErrNoTable)
		}},
	})
}

// none is no answer.
const none = "\x00none"

func (h *hands) want(got, want error) {
	h.Helper()
	if !errors.Is(got, want) {
		h.Errorf("the error is %v, want %v", got, want)
	}
}

// wantGone wants an error of a transaction that is known to have left nothing.
func (h *hands) wantGone(got, want error) {
	h.Helper()
	h.want(got, want)
	if !oncekeeper.IsRolledBack(got) {
		h.Errorf("%v is not marked as rolled back", got)
	}
}

func (h *hands) wantAnswer(got string, err error, want string) {
	h.Helper()
	if err != nil || got != want {
		h.Errorf("it gave %q, %v, want %q", got, err, want)
	}
}

func (h *hands) must(_ string, err error, _ *receipt.Permit) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// wantApplied wants the permit to hold that answer, or none.
func (h *hands) wantApplied(p *receipt.Permit, want string) {
	h.Helper()
	applied := p.Applied()
	switch {
	case want == none && applied != nil:
		h.Errorf("the permit holds %+v, want nothing", applied)
	case want != none && (applied == nil || !reflect.DeepEqual(applied, responseOf(want))):
		h.Errorf("the permit holds %+v, want %+v", applied, responseOf(want))
	}
}

func (h *hands) wantEffects(name string, want int) {
	h.Helper()
	if got := h.Effects(h.T, name); got != want {
		h.Errorf("%d effects, want %d", got, want)
	}
}

// wantReceipt wants that receipt of the key, its key and time aside.
func (h *hands) wantReceipt(key oncekeeper.Key, want *receipt.Receipt) {
	h.Helper()
	got, err := h.Look(h.ctx, key)
	if err != nil {
		h.Fatal(err)
	}
	if got == nil || want == nil {
		if got != nil || want != nil {
			h.Errorf("the receipt is %+v, want %+v", got, want)
		}
		return
	}
	want.Key = key
	h.sameReceipt(got, want)
}

func (h *hands) sameReceipt(got, want *receipt.Receipt) {
	h.Helper()
	if got == nil {
		h.Fatalf("there is no receipt, want %+v", want)
	}
	if off := time.Since(got.Written).Abs(); off > time.Hour {
		h.Errorf("it was written at %v, which is %v from now", got.Written, off)
	}
	g, w := *got, *want
	g.Written, w.Written, w.Key = time.Time{}, time.Time{}, got.Key
	if len(g.Fingerprint) == 0 {
		g.Fingerprint = nil
	}
	if !reflect.DeepEqual(g, w) {
		h.Errorf("the receipt is %+v with %+v, want %+v with %+v", g, g.Response, w, w.Response)
	}
}
