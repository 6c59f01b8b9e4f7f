package steps_test

import (
	"fmt"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// lease is how long an attempt may go unheard of, in the small world's
// microseconds. A token is a moment, so the numbers stay small; and a key that is
// begun again in the same moment gets a token that is greater by one.
const lease = 3

// forever outlasts the small world.
const forever = time.Hour

var worldKey = oncekeeper.Key{Tenant: "t", Operation: "o", ID: "k"}

// what is kept of an attempt, and what a caller is told.
type word uint8

const (
	nothing word = iota
	theReceipts
	value    // of a function that did not call InTx
	told     // by the reconciler
	refusal  // it failed for good
	again    // it did nothing, this time
	dontKnow // nobody knows
	mismatch
	comeBack   // unavailable, in progress, another's outcome counts
	unresolved // held
	exhausted
)

var words = [...]string{
	"nothing", "the receipt's response", "a value without InTx", "what the reconciler told", "a final failure", "that nothing was done",
	"that nobody knows", "FINGERPRINT_MISMATCH", "come back", "UNRESOLVED", "ATTEMPTS_EXHAUSTED",
}

func (w word) String() string { return words[w] }

// service is the record of the key by the real rules, each record once.
type service struct {
	grant   oncekeeper.Grant
	records []*oncekeeper.KeyRecord
	ids     map[string]uint16
	judged  map[asked]verdict
}

// asked is a command on a record at a moment.
type asked struct {
	rec   uint16
	now   int8
	verb  verb
	token int8
	call  int8
	fp    int8
	as    oncekeeper.Settlement
	with  word
	short bool
	// notRun: see lifecycle.Settle.
	notRun bool
}

type verb uint8

const (
	begin verb = iota
	settle
	release
	forget
)

type verdict struct {
	rec uint16
	lifecycle.Verdict
}

func newService(grant oncekeeper.Grant) *service {
	grant.Lease, grant.Retention, grant.UnsettledRetention = lease*time.Microsecond, forever, forever
	return &service{grant: grant, records: []*oncekeeper.KeyRecord{nil}, ids: map[string]uint16{}, judged: map[asked]verdict{}}
}

// judge applies a command by lifecycle.
func (s *service) judge(a asked) verdict {
	if v, ok := s.judged[a]; ok {
		return v
	}
	rec := s.records[a.rec]
	var cmd lifecycle.Command
	switch a.verb {
	case begin:
		call := ""
		if a.call > 0 {
			call = fmt.Sprint("call", a.call)
		}
		cmd = lifecycle.Begin{
			Key: worldKey, CallID: call, Fingerprint: digestOf(a.fp), FingerprintScheme: "raw", Grant: s.grant,
		}
	case settle:
		c := lifecycle.Settle{Key: worldKey, Token: int64(a.token), As: a.as, NotRun: a.notRun}
		if a.as == oncekeeper.SettledComplete {
			c.Response = responseOf(a.with)
		} else {
			c.Status = &oncekeeper.Status{Code: 2, Message: a.with.String()}
		}
		if a.short {
			c.Retention = time.Microsecond
		}
		cmd = c
	case release:
		cmd = lifecycle.Resolve{Key: worldKey, Etag: rec.Etag()}
	case forget:
		cmd = lifecycle.Delete{Key: worldKey, Etag: rec.Etag(), Force: true}
	}
	next, said := lifecycle.Apply(rec, cmd, oncekeeper.Instant(a.now))
	v := verdict{rec: s.id(next), Verdict: said}
	s.judged[a] = v
	return v
}

// id gives a record's number. What no rule reads is left out, so that the world
// stays small.
func (s *service) id(rec *oncekeeper.KeyRecord) uint16 {
	if rec == nil {
		return 0
	}
	plain := *rec
	plain.Revision, plain.Created, plain.Settled, plain.History = 0, 0, 0, nil
	if plain.Expires > 100 {
		plain.Expires = 0
	}
	plain.UnsettledUntil = min(plain.UnsettledUntil, 100_000_000)
	if plain.UnsettledUntil > 100 {
		plain.UnsettledUntil = oncekeeper.Instant(forever / time.Microsecond)
	}
	text := describe(&plain)
	if id, ok := s.ids[text]; ok {
		return id
	}
	id := uint16(len(s.records))
	s.records = append(s.records, &plain)
	s.ids[text] = id
	return id
}

func describe(r *oncekeeper.KeyRecord) string {
	return fmt.Sprintln(r.State, r.Token, r.Fingerprint, r.AnyFingerprint, r.CallID, r.Attempt, r.Takeover, r.Granted.Hold,
		r.LeaseEnd, r.UnsettledUntil, r.Expires, r.Last, r.NotRun, keptBy(r), r.Origin)
}

// keptBy gives the word that a record holds.
func keptBy(r *oncekeeper.KeyRecord) word {
	switch {
	case r == nil:
		return nothing
	case r.Response != nil:
		return word(r.Response.StatusCode)
	case r.State == oncekeeper.StoredFailed && r.Origin == oncekeeper.OriginExhausted:
		return exhausted
	case r.Status != nil:
		for w, text := range words {
			if text == r.Status.Message {
				return word(w)
			}
		}
	}
	return nothing
}

func responseOf(w word) *oncekeeper.Response {
	return &oncekeeper.Response{Body: []byte(w.String()), StatusCode: int32(w)}
}

func digestOf(fp int8) []byte { return []byte{byte(fp)} }
