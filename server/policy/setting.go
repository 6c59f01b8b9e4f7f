package policy

import (
	"fmt"
	"strconv"
	"time"
)

// setting is a value of a policy that a file may give: its name there, and how it
// is read and written. This table is the one place where they are listed.
type setting struct {
	name string
	read func(p *Policy, text string) error
	show func(p *Policy) string
}

const settingCount = 9 + len(windows)

// windowPrefix is before the name of a window, where settings are listed.
const windowPrefix = "windows."

var settings = func() [settingCount]setting {
	list := []setting{
		durationSetting("lease", func(p *Policy) *time.Duration { return &p.Lease }),
		durationSetting("max_lease", func(p *Policy) *time.Duration { return &p.MaxLease }),
		durationSetting("retention", func(p *Policy) *time.Duration { return &p.Retention }),
		durationSetting("max_retention", func(p *Policy) *time.Duration { return &p.MaxRetention }),
		durationSetting("unsettled_retention", func(p *Policy) *time.Duration { return &p.UnsettledRetention }),
		durationSetting("max_wait", func(p *Policy) *time.Duration { return &p.MaxWait }),
		{"max_response_bytes", readMaxResponseBytes, func(p *Policy) string { return formatSize(p.MaxResponseBytes) }},
		{"max_attempts", readMaxAttempts, showMaxAttempts},
		{"on_lease_expiry", readHold, showHold},
	}
	for _, w := range windows {
		list = append(list, durationSetting(windowPrefix+w.name, func(p *Policy) *time.Duration { return w.of(&p.Windows) }))
	}
	return [settingCount]setting(list)
}()

// settingNamed gives the place of a setting in the table, or -1.
func settingNamed(name string) int {
	for i := range settings {
		if settings[i].name == name {
			return i
		}
	}
	return -1
}

func durationSetting(name string, of func(*Policy) *time.Duration) setting {
	read := func(p *Policy, text string) error {
		d, err := parseDuration(text)
		if err == nil {
			*of(p) = d
		}
		return err
	}
	return setting{name: name, read: read, show: func(p *Policy) string { return formatDuration(*of(p)) }}
}

func readMaxResponseBytes(p *Policy, text string) error {
	n, err := parseSize(text)
	if err == nil {
		p.MaxResponseBytes = n
	}
	return err
}

func readMaxAttempts(p *Policy, text string) error {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return fmt.Errorf("%q is not a whole number; 0 is no limit", text)
	}
	p.MaxAttempts = int32(n)
	return nil
}

func showMaxAttempts(p *Policy) string {
	if p.MaxAttempts == 0 {
		return "0 (no limit)"
	}
	return strconv.Itoa(int(p.MaxAttempts))
}

const (
	takeOver = "take_over"
	hold     = "hold"
)

func readHold(p *Policy, text string) error {
	if text != takeOver && text != hold {
		return fmt.Errorf("%q is neither %s nor %s", text, takeOver, hold)
	}
	p.Hold = text == hold
	return nil
}

func showHold(p *Policy) string {
	if p.Hold {
		return hold
	}
	return takeOver
}
