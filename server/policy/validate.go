package policy

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxResponseBytes keeps a settlement, and a replay, within a gRPC message of the
// size that clients take unless told otherwise (4 MiB).
const maxResponseBytes = 3 << 20

// maxDuration is longer than anything is kept, and so short that two of them can be
// added to any moment.
const maxDuration = 36500 * day

// violation is a rule about values that they break.
type violation struct {
	// settings are those that it is about, the one at fault first.
	settings []string
	reason   string
}

// Validate gives what is wrong with p, all of it.
func (p Policy) Validate() error {
	var faults []error
	for _, v := range p.violations() {
		faults = append(faults, errors.New(v.reason))
	}
	return errors.Join(faults...)
}

func (p Policy) violations() []violation {
	var broken []violation
	check := func(ok bool, names []string, format string, args ...any) {
		if !ok {
			broken = append(broken, violation{settings: names, reason: fmt.Sprintf(format, args...)})
		}
	}
	within := func(d, bound time.Duration, name, boundName string) {
		check(d > 0 && d <= bound, []string{name, boundName}, "%s %s is not above 0 and within %s %s", name, formatDuration(d), boundName, formatDuration(bound))
	}
	within(p.Lease, p.MaxLease, "lease", "max_lease")
	within(p.Retention, p.MaxRetention, "retention", "max_retention")
	check(p.UnsettledRetention > 0, []string{"unsettled_retention"}, "unsettled_retention %s is not above 0", formatDuration(p.UnsettledRetention))
	check(p.MaxWait >= 0, []string{"max_wait"}, "max_wait %s is below 0", formatDuration(p.MaxWait))
	check(p.MaxResponseBytes >= 0 && p.MaxResponseBytes <= maxResponseBytes, []string{"max_response_bytes"},
		"max_response_bytes %s is not within 0 and %s", formatSize(p.MaxResponseBytes), formatSize(maxResponseBytes))
	check(p.MaxAttempts >= 0, []string{"max_attempts"}, "max_attempts %d is below 0", p.MaxAttempts)
	for name, d := range p.durations() {
		check(d <= maxDuration, []string{name}, "%s %s is longer than %s", name, formatDuration(d), formatDuration(maxDuration))
	}
	return append(broken, p.windowViolations()...)
}

// windowViolations: what came within its window must still be known, whether it
// was settled or ended with no known outcome.
func (p Policy) windowViolations() []violation {
	var broken []violation
	for _, w := range windows {
		if d := *w.of(&p.Windows); d < 0 {
			broken = append(broken, violation{[]string{windowPrefix + w.name}, fmt.Sprintf("%s %s is below 0", windowPrefix+w.name, formatDuration(d))})
		}
	}
	longest, d := p.Windows.longest()
	for _, kept := range []struct {
		name string
		d    time.Duration
	}{{"retention", p.Retention}, {"unsettled_retention", p.UnsettledRetention}} {
		if kept.d < d {
			broken = append(broken, violation{
				[]string{kept.name, windowPrefix + longest},
				fmt.Sprintf("%s %s is shorter than the window %s %s: the same key would run once more", kept.name, formatDuration(kept.d), longest, formatDuration(d)),
			})
		}
	}
	return broken
}

// durations yields what maxDuration bounds, in the order of the settings.
func (p Policy) durations() func(yield func(string, time.Duration) bool) {
	return func(yield func(string, time.Duration) bool) {
		all := []struct {
			name string
			d    time.Duration
		}{
			{"max_lease", p.MaxLease}, {"max_retention", p.MaxRetention},
			{"unsettled_retention", p.UnsettledRetention}, {"max_wait", p.MaxWait},
		}
		for _, each := range all {
			if !yield(each.name, each.d) {
				return
			}
		}
	}
}

// touches says whether v is about one of the settings that given names.
func (v violation) touches(given func(setting int) bool) bool {
	return slices.ContainsFunc(v.settings, func(name string) bool { return given(settingNamed(name)) })
}
