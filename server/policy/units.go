package policy

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// parseDuration reads Go's durations, and days before them: 30s, 1h30m, 400d, 1d12h.
func parseDuration(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is no duration: write 30s, 1h30m, 400d or 1d12h", text)
	if strings.HasPrefix(text, "-") {
		return 0, fmt.Errorf("%q is below 0", text)
	}
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	n, err := strconv.ParseUint(days, 10, 63)
	if errors.Is(err, strconv.ErrRange) || n > math.MaxInt64/uint64(day) {
		return 0, fmt.Errorf("%q is longer than can be counted", text)
	}
	if err != nil || (rest == "" && !found) || strings.HasPrefix(rest, "+") || strings.HasPrefix(rest, "-") {
		return 0, bad
	}
	var part time.Duration
	if rest != "" {
		if part, err = time.ParseDuration(rest); err != nil {
			return 0, bad
		}
	}
	whole := time.Duration(n) * day
	if whole > math.MaxInt64-part {
		return 0, fmt.Errorf("%q is longer than can be counted", text)
	}
	return whole + part, nil
}

// formatDuration writes d so that parseDuration reads the same: whole days as
// days, and no units that are zero.
func formatDuration(d time.Duration) string {
	if d > 0 && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// parseSize reads bytes: 65536, 512KiB, 1MiB.
func parseSize(text string) (int64, error) {
	number, unit := text, int64(1)
	for suffix, bytes := range map[string]int64{"KiB": kib, "MiB": mib} {
		if digits, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = digits, bytes
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if errors.Is(err, strconv.ErrRange) || err == nil && int64(n) > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is more than can be counted", text)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is no size: write 65536, 512KiB or 1MiB", text)
	}
	return int64(n) * unit, nil
}

// formatSize writes n so that parseSize reads the same.
func formatSize(n int64) string {
	switch {
	case n > 0 && n%mib == 0:
		return fmt.Sprintf("%dMiB", n/mib)
	case n > 0 && n%kib == 0:
		return fmt.Sprintf("%dKiB", n/kib)
	default:
		return strconv.FormatInt(n, 10)
	}
}
