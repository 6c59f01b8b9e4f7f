package receipt

import (
	"bytes"

	"github.com/oncekeeper/oncekeeper"
)

// Claimed says whether c may apply the operation whose committed row is r (nil:
// none): nil; or oncekeeper.ErrFingerprintMismatch where the row is of another
// request, oncekeeper.ErrFenced where its floor is above the token, or where it has
// a floor and there is no token; ErrInDoubt where r is in doubt. Where r is applied,
// and of the same request, it is a duplicate: applied is true, and r.Response is the
// answer.
//
// The stores say the same in SQL; receipttest holds them to it.
func Claimed(r *Receipt, c Claim) (applied bool, err error) {
	switch {
	case r == nil:
		return false, nil
	case r.InDoubt:
		return false, ErrInDoubt
	case !sameRequest(r, c):
		return false, oncekeeper.ErrFingerprintMismatch
	case r.Applied():
		return true, nil
	case r.Floor > c.Token:
		return false, oncekeeper.ErrFenced
	default:
		return false, nil
	}
}

// Closed gives the row that closing leaves: one that is applied or in doubt stays as
// it is; any other lets no attempt apply it whose token is below floor.
func Closed(r *Receipt, c Claim, floor int64) Receipt {
	switch {
	case r == nil:
		return Receipt{Key: c.Key, FingerprintScheme: c.FingerprintScheme, Fingerprint: c.Fingerprint, Floor: floor}
	case r.Applied() || r.InDoubt:
		return *r
	default:
		closed := *r
		closed.Floor = max(closed.Floor, floor)
		return closed
	}
}

// sameRequest compares as the service does: digests of different schemes cannot be.
// A row that is no more than a floor holds nothing that could be given to another
// request; and the record, not the receipt, says which request a key is of.
func sameRequest(r *Receipt, c Claim) bool {
	return !r.Applied() || r.FingerprintScheme != c.FingerprintScheme || bytes.Equal(r.Fingerprint, c.Fingerprint)
}
