// Package policy says what a Begin is given: the defaults for what it leaves
// unset, and the bounds of what it asks for.
package policy

import (
	"errors"
	"fmt"
	"time"

	"github.com/oncekeeper/oncekeeper"
)

// Policy holds for every key of a server.
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
}

// Default is the policy of a server that was told none.
func Default() Policy {
	const day = 24 * time.Hour
	return Policy{
		Lease: 30 * time.Second, MaxLease: time.Hour,
		Retention: day, MaxRetention: 400 * day,
		UnsettledRetention: 30 * day,
		MaxWait:            10 * time.Second,
		MaxResponseBytes:   1 << 20,
	}
}

// maxResponseBytes keeps a settlement, and a replay, within a gRPC message of the
// size that clients take unless told otherwise (4 MiB).
const maxResponseBytes = 3 << 20

// Validate gives what is wrong with p, all of it.
func (p Policy) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(p.Lease > 0 && p.Lease <= p.MaxLease, "lease %v is not within 0 and max_lease %v", p.Lease, p.MaxLease)
	check(p.Retention > 0 && p.Retention <= p.MaxRetention, "retention %v is not within 0 and max_retention %v", p.Retention, p.MaxRetention)
	check(p.UnsettledRetention > 0, "unsettled_retention %v is not above 0", p.UnsettledRetention)
	check(p.MaxWait >= 0, "max_wait %v is below 0", p.MaxWait)
	check(p.MaxResponseBytes >= 0 && p.MaxResponseBytes <= maxResponseBytes, "max_response_bytes %d is not within 0 and %d", p.MaxResponseBytes, maxResponseBytes)
	check(p.MaxAttempts >= 0, "max_attempts %d is below 0", p.MaxAttempts)
	return errors.Join(faults...)
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
