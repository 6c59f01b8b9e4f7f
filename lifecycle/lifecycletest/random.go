package lifecycletest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// Past is what a random command may refer to: the key's record as last seen, and
// the tokens that it had before.
type Past struct {
	Record *oncekeeper.KeyRecord
	Tokens []int64
	Etags  []string
}

// See adds the record that a command left.
func (p *Past) See(rec *oncekeeper.KeyRecord) {
	if rec == nil {
		return
	}
	p.Record = rec
	if n := len(p.Tokens); n == 0 || p.Tokens[n-1] != rec.Token {
		p.Tokens = append(p.Tokens, rec.Token)
	}
	if n := len(p.Etags); n == 0 || p.Etags[n-1] != rec.Etag() {
		p.Etags = append(p.Etags, rec.Etag())
	}
}

// DrawCommand gives a command on key: with few fingerprints, call ids and
// outcomes, so that they meet, and with tokens and etags more often right than
// stale or made up.
func DrawCommand(t *rapid.T, key oncekeeper.Key, past Past) lifecycle.Command {
	switch rapid.SampledFrom(kinds).Draw(t, "command") {
	case "begin":
		return lifecycle.Begin{
			Key:               key,
			Fingerprint:       []byte(mostly(t, "fingerprint", "digest", "", "another")),
			FingerprintScheme: mostly(t, "scheme", "raw", "", "jcs1"),
			CallID:            rapid.SampledFrom([]string{"", "call-1", "call-2", "call-3"}).Draw(t, "call"),
			Holder:            rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "holder"),
			Principal:         drawPrincipal(t),
			TraceParent:       rapid.SampledFrom([]string{"", firstTrace, secondTrace}).Draw(t, "trace"),
			Grant:             drawGrant(t),
		}
	case "renew":
		return lifecycle.Renew{
			Key: key, Token: drawToken(t, past),
			Lease:      rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "lease"),
			Checkpoint: rapid.SampledFrom([][]byte{nil, {}, []byte("half")}).Draw(t, "checkpoint"),
		}
	case "settle":
		return drawSettle(t, key, drawToken(t, past))
	case "resolve":
		c := lifecycle.Resolve{Key: key, Etag: drawEtag(t, past), Force: rapid.Bool().Draw(t, "force"), Reason: drawReason(t), Principal: drawPrincipal(t)}
		switch rapid.SampledFrom([]string{"release", "complete", "fail"}).Draw(t, "as") {
		case "complete":
			c.Response = drawResponse(t)
		case "fail":
			c.Status = drawStatus(t)
		}
		return c
	default:
		return lifecycle.Delete{Key: key, Etag: drawEtag(t, past), Force: rapid.Bool().Draw(t, "force"), Reason: drawReason(t), Principal: drawPrincipal(t)}
	}
}

func drawPrincipal(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "shop", "clerk"}).Draw(t, "principal")
}

func drawReason(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "no row in the ledger", "é"}).Draw(t, "reason")
}

// DrawStep gives by how much the clock moves on before a command: often not at
// all, and often to where something ends, or just before or behind it. Ends are
// moments at which something does.
func DrawStep(t *rapid.T, now oncekeeper.Instant, ends ...oncekeeper.Instant) time.Duration {
	const second, minute, hour = time.Second, time.Minute, time.Hour
	switch rapid.SampledFrom([]string{"stay", "stay", "end", "any"}).Draw(t, "clock") {
	case "end":
		if len(ends) == 0 {
			return 0
		}
		end := rapid.SampledFrom(ends).Draw(t, "end")
		off := rapid.SampledFrom([]time.Duration{0, -time.Microsecond, time.Microsecond}).Draw(t, "off")
		return max(0, end.Sub(now)+off)
	case "any":
		return rapid.SampledFrom([]time.Duration{
			time.Microsecond, second / 2, second, minute, hour, 40 * hour,
		}).Draw(t, "step")
	default:
		return 0
	}
}

// Ends gives the moments at which something of rec ends.
func Ends(rec *oncekeeper.KeyRecord) []oncekeeper.Instant {
	if rec == nil {
		return nil
	}
	ends := []oncekeeper.Instant{rec.LeaseEnd}
	if rec.Expires != 0 {
		ends = append(ends, rec.Expires)
	}
	return ends
}

var kinds = []string{
	"begin", "begin", "begin", "begin", "begin", "settle", "settle", "settle", "renew", "renew", "resolve", "delete",
}

func mostly(t *rapid.T, label, usual string, others ...string) string {
	return rapid.SampledFrom(append([]string{usual, usual, usual, usual}, others...)).Draw(t, label)
}

func drawGrant(t *rapid.T) oncekeeper.Grant {
	return oncekeeper.Grant{
		Lease:              rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "lease"),
		Retention:          rapid.SampledFrom([]time.Duration{time.Second, time.Hour}).Draw(t, "retention"),
		UnsettledRetention: rapid.SampledFrom([]time.Duration{time.Second, 24 * time.Hour}).Draw(t, "unsettled"),
		MaxAttempts:        rapid.SampledFrom([]int32{0, 0, 1, 2}).Draw(t, "attempts"),
		Hold:               rapid.SampledFrom([]bool{false, false, true}).Draw(t, "hold"),
	}
}

func drawSettle(t *rapid.T, key oncekeeper.Key, token int64) lifecycle.Settle {
	c := lifecycle.Settle{
		Key: key, Token: token,
		As: rapid.SampledFrom([]oncekeeper.Settlement{
			oncekeeper.SettledRetryable, oncekeeper.SettledUnknown, oncekeeper.SettledComplete, oncekeeper.SettledFinal,
		}).Draw(t, "as"),
		Retention: rapid.SampledFrom([]time.Duration{0, time.Second, 2 * time.Hour}).Draw(t, "retention"),
	}
	c.NotRun = c.As == oncekeeper.SettledRetryable && rapid.Bool().Draw(t, "not run")
	if c.As == oncekeeper.SettledComplete {
		c.Response = drawResponse(t)
	} else {
		c.Status = drawStatus(t)
	}
	return c
}

func drawResponse(t *rapid.T) *oncekeeper.Response {
	return rapid.SampledFrom([]*oncekeeper.Response{
		{Body: []byte("paid"), ContentType: "text/plain"},
		{},
		{Omitted: true, Resource: "charges/1", StatusCode: 201},
		{Metadata: []oncekeeper.MetadataEntry{{Kind: oncekeeper.MetadataTrailer, Name: "a", Value: []byte{0, 255}}}},
	}).Draw(t, "response")
}

func drawStatus(t *rapid.T) *oncekeeper.Status {
	return rapid.SampledFrom([]*oncekeeper.Status{
		{Code: 9, Message: "no funds"},
		{Code: 14, Details: [][]byte{{1}, {}, {2, 3}}},
	}).Draw(t, "status")
}

// drawToken gives the token at hand, an earlier one, or the one to come.
func drawToken(t *rapid.T, past Past) int64 {
	n := len(past.Tokens)
	if n == 0 {
		return 1
	}
	switch rapid.SampledFrom([]string{"right", "right", "right", "stale", "next"}).Draw(t, "token") {
	case "right":
		return past.Tokens[n-1]
	case "stale":
		return rapid.SampledFrom(past.Tokens).Draw(t, "stale token")
	default:
		return past.Tokens[n-1] + 1
	}
}

func drawEtag(t *rapid.T, past Past) string {
	n := len(past.Etags)
	if n == 0 {
		return ""
	}
	if rapid.SampledFrom([]bool{true, true, true, false}).Draw(t, "etag is right") {
		return past.Etags[n-1]
	}
	return rapid.SampledFrom(past.Etags).Draw(t, "stale etag")
}
