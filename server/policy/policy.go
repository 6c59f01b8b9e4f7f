// Package policy says what a Begin is given: the defaults for what it leaves
// unset, and the bounds of what it asks for; which policy holds for which key; and
// how a file says it all.
//
// It knows no record and no request, and nothing of where the file lies or when it
// is read again.
package policy

import (
	"time"

	"github.com/oncekeeper/oncekeeper"
)

// Policy is what holds for a key: see Set for which one.
type Policy struct {
	// Lease is given where a Begin asks for none; MaxLease bounds what it asks for.
	Lease, MaxLease time.Duration
	// Retention is how long a record is kept once settled, where its caller does
	// not say; MaxRetention bounds what it says.
	Retention, MaxRetention time.Duration
	// UnsettledRetention is how long after its lease an attempt with no known
	// outcome is remembered, whatever retention the caller asked for.
	UnsettledRetention time.Duration
	// MaxWait bounds how long a Begin is held while another attempt runs.
	MaxWait time.Duration
	// MaxResponseBytes bounds the body of a stored response, and a stored status's
	// details.
	MaxResponseBytes int64
	// MaxAttempts before a key is given up; 0: no limit. A Begin may ask for fewer.
	MaxAttempts int32
	// Hold keeps every key whose attempt ended with no known outcome until someone
	// resolves it. A Begin may ask for it where the policy does not.
	Hold bool
	// Windows are for how long the same key may come again: what is kept is kept as
	// long. They change nothing that is granted.
	Windows Windows
}

// Default is the policy of a server that was told none.
func Default() Policy {
	return Policy{
		Lease: 30 * time.Second, MaxLease: time.Hour,
		Retention: day, MaxRetention: 400 * day,
		UnsettledRetention: 30 * day,
		MaxWait:            10 * time.Second,
		MaxResponseBytes:   1 << 20,
	}
}

// Ask is what a Begin asks for; zero values ask for nothing.
type Ask struct {
	Lease, Retention time.Duration
	MaxAttempts      int32
	Hold             bool
}

// Grant gives what p lets a Begin have that asks for a: the stricter of both.
func (p Policy) Grant(a Ask) oncekeeper.Grant {
	g := oncekeeper.Grant{
		Lease:              p.Lease,
		Retention:          p.Retention,
		UnsettledRetention: oncekeeper.CeilMicrosecond(p.UnsettledRetention),
		MaxAttempts:        p.MaxAttempts,
		Hold:               p.Hold || a.Hold,
	}
	if a.Lease > 0 {
		g.Lease = p.ClampLease(a.Lease)
	}
	if a.Retention > 0 {
		g.Retention = p.ClampRetention(a.Retention)
	}
	if a.MaxAttempts > 0 && (g.MaxAttempts == 0 || a.MaxAttempts < g.MaxAttempts) {
		g.MaxAttempts = a.MaxAttempts
	}
	g.Lease, g.Retention = oncekeeper.CeilMicrosecond(g.Lease), oncekeeper.CeilMicrosecond(g.Retention)
	return g
}

// ClampLease bounds the lease that a Begin or a Renew asks for.
func (p Policy) ClampLease(d time.Duration) time.Duration {
	return oncekeeper.CeilMicrosecond(min(d, p.MaxLease))
}

// ClampRetention bounds the retention that a Begin or a settlement asks for.
func (p Policy) ClampRetention(d time.Duration) time.Duration {
	return oncekeeper.CeilMicrosecond(min(d, p.MaxRetention))
}
