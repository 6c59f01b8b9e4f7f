package receipt_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

var (
	key   = oncekeeper.Key{Tenant: "acme", Operation: "charge", ID: "1"}
	claim = receipt.Claim{Key: key, Token: 5, FingerprintScheme: "pb1", Fingerprint: []byte("a")}
	paid  = &oncekeeper.Response{Body: []byte("paid")}
)

func TestAnAttemptMayApplyWhatNobodyAppliedAndNoFloorIsAbove(t *testing.T) {
	row := func(change func(*receipt.Receipt)) *receipt.Receipt {
		r := &receipt.Receipt{Key: key, FingerprintScheme: "pb1", Fingerprint: []byte("a")}
		change(r)
		return r
	}
	token := func(n int64) receipt.Claim { c := claim; c.Token = n; return c }
	floor := row(func(r *receipt.Receipt) { r.Floor = 5 })
	applied := row(func(r *receipt.Receipt) { r.Token, r.Response = 9, paid })
	other := row(func(r *receipt.Receipt) { r.Token, r.Response, r.Fingerprint = 9, paid, []byte("b") })
	for name, c := range map[string]struct {
		row     *receipt.Receipt
		claim   receipt.Claim
		applied bool
		err     error
	}{
		"no row":                          {row: nil, claim: claim},
		"no row, no token":                {row: nil, claim: token(0)},
		"a floor below":                   {row: floor, claim: token(6)},
		"a floor at the token":            {row: floor, claim: token(5)},
		"a floor above":                   {row: floor, claim: token(4), err: oncekeeper.ErrFenced},
		"a floor, no token":               {row: floor, claim: token(0), err: oncekeeper.ErrFenced},
		"the least floor, no token":       {row: row(func(r *receipt.Receipt) { r.Floor = 1 }), claim: token(0), err: oncekeeper.ErrFenced},
		"a row with no floor, no token":   {row: row(func(*receipt.Receipt) {}), claim: token(0)},
		"a floor of another request":      {row: row(func(r *receipt.Receipt) { r.Floor, r.Fingerprint = 5, []byte("b") }), claim: claim},
		"applied":                         {row: applied, claim: claim, applied: true},
		"applied, no token":               {row: applied, claim: token(0), applied: true},
		"applied by a later attempt":      {row: applied, claim: token(3), applied: true},
		"applied below a floor":           {row: row(func(r *receipt.Receipt) { r.Floor, r.Response = 9, paid }), claim: claim, applied: true},
		"applied with an empty response":  {row: row(func(r *receipt.Receipt) { r.Response = &oncekeeper.Response{} }), claim: claim, applied: true},
		"applied for another request":     {row: other, claim: claim, err: oncekeeper.ErrFingerprintMismatch},
		"applied under another scheme":    {row: row(func(r *receipt.Receipt) { r.Response, r.FingerprintScheme, r.Fingerprint = paid, "jcs1", []byte("b") }), claim: claim, applied: true},
		"in doubt":                        {row: row(func(r *receipt.Receipt) { r.InDoubt = true }), claim: claim, err: receipt.ErrInDoubt},
		"in doubt, with a floor above":    {row: row(func(r *receipt.Receipt) { r.InDoubt, r.Floor = true, 9 }), claim: claim, err: receipt.ErrInDoubt},
		"an empty fingerprint is a value": {row: other, claim: receipt.Claim{Key: key, Token: 9, FingerprintScheme: "pb1"}, err: oncekeeper.ErrFingerprintMismatch},
	} {
		if applied, err := receipt.Claimed(c.row, c.claim); applied != c.applied || !errors.Is(err, c.err) {
			t.Errorf("%s: Claimed gave %v, %v, want %v, %v", name, applied, err, c.applied, c.err)
		}
	}
}

func TestClosingRaisesTheFloorOfWhatIsNotApplied(t *testing.T) {
	made := receipt.Receipt{Key: key, FingerprintScheme: "pb1", Fingerprint: []byte("a"), Floor: 6}
	applied := receipt.Receipt{Key: key, Response: paid, Token: 3}
	doubt := receipt.Receipt{Key: key, InDoubt: true, Token: 3}
	other := receipt.Receipt{Key: key, FingerprintScheme: "pb1", Fingerprint: []byte("b"), Floor: 4}
	raised := other
	raised.Floor = 6
	higher := other
	higher.Floor = 8
	for name, c := range map[string]struct{ row, want *receipt.Receipt }{
		"no row":                     {nil, &made},
		"applied":                    {&applied, &applied},
		"in doubt":                   {&doubt, &doubt},
		"a smaller floor":            {&other, &raised},
		"a greater floor":            {&higher, &higher},
		"the same floor once more":   {&made, &made},
		"another request's, as told": {&raised, &raised},
	} {
		var before receipt.Receipt
		if c.row != nil {
			before = *c.row
		}
		if got := receipt.Closed(c.row, claim, 6); !reflect.DeepEqual(got, *c.want) {
			t.Errorf("%s: Closed gave %+v, want %+v", name, got, *c.want)
		}
		if c.row != nil && !reflect.DeepEqual(*c.row, before) {
			t.Errorf("%s: Closed changed the row that it was given", name)
		}
	}
}

// After closing at token+1, which a guard does before it says that an attempt did
// nothing, no attempt up to that one may apply it; the next one may.
func TestAClosedAttemptIsFencedAndTheNextIsNot(t *testing.T) {
	for before := int64(0); before < 9; before++ {
		row := receipt.Closed(&receipt.Receipt{Key: key, Floor: before}, claim, claim.Token+1)
		for token := int64(0); token < 12; token++ {
			c := claim
			c.Token = token
			_, err := receipt.Claimed(&row, c)
			if fenced := errors.Is(err, oncekeeper.ErrFenced); fenced != (token <= claim.Token || token < before) {
				t.Errorf("floor %d, closed at %d: the token %d is fenced: %v", before, claim.Token+1, token, fenced)
			}
		}
	}
}
