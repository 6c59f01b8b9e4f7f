package history

import (
	"bytes"
	"slices"

	"github.com/oncekeeper/oncekeeper"
)

// ViewOf gives rec as a caller sees it who reads it in state.
func ViewOf(rec *oncekeeper.KeyRecord, state oncekeeper.State) *View {
	return &View{
		State: state, Etag: rec.Etag(), Fingerprint: rec.Fingerprint, FingerprintScheme: rec.FingerprintScheme,
		Token: rec.Token, Attempt: rec.Attempt, Holder: rec.Holder, Created: rec.Created, LeaseEnd: rec.LeaseEnd,
		Settled: rec.Settled, Expires: rec.Expires, Outcome: rec.LastOutcome(), Checkpoint: rec.Checkpoint, Hold: rec.Granted.Hold,
	}
}

// Equal says whether a caller could tell a from b.
func (v *View) Equal(w *View) bool {
	if v == nil || w == nil {
		return v == w
	}
	return v.State == w.State && v.Etag == w.Etag && bytes.Equal(v.Fingerprint, w.Fingerprint) && v.FingerprintScheme == w.FingerprintScheme &&
		v.Token == w.Token && v.Attempt == w.Attempt && v.Holder == w.Holder && v.Created == w.Created && v.LeaseEnd == w.LeaseEnd &&
		v.Settled == w.Settled && v.Expires == w.Expires && SameOutcome(v.Outcome, w.Outcome) &&
		bytes.Equal(v.Checkpoint, w.Checkpoint) && v.Hold == w.Hold
}

// SameOutcome says whether a caller could tell a from b.
func SameOutcome(a, b *oncekeeper.Outcome) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Origin == b.Origin && a.Token == b.Token && a.Attempt == b.Attempt && a.Settled == b.Settled && a.Expires == b.Expires &&
		SameSaying(a.Response, a.Status, b.Response, b.Status)
}

// SameSaying says whether two settlements say the same. Runs settle with bodies and
// with codes and messages alone.
func SameSaying(r1 *oncekeeper.Response, s1 *oncekeeper.Status, r2 *oncekeeper.Response, s2 *oncekeeper.Status) bool {
	if (r1 == nil) != (r2 == nil) || (s1 == nil) != (s2 == nil) {
		return false
	}
	if r1 != nil && (!bytes.Equal(r1.Body, r2.Body) || r1.ContentType != r2.ContentType || r1.Omitted != r2.Omitted ||
		r1.StatusCode != r2.StatusCode || r1.Resource != r2.Resource || len(r1.Metadata) != len(r2.Metadata)) {
		return false
	}
	return s1 == nil || s1.Code == s2.Code && s1.Message == s2.Message && slices.EqualFunc(s1.Details, s2.Details, bytes.Equal)
}
