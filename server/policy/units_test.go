package policy

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDurationsAreGosAndDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "0": 0, "30s": 30 * time.Second, "1h30m": 90 * time.Minute, "400d": 400 * day, "1d12h": 36 * time.Hour, "0d": 0, "1.5h": 90 * time.Minute,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q is read as %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "30", "d", "1.5d", "1w", "-1s", "+1s", "1d-1h", "1d+1h", "1d 12h", "12h1d", "106752d", "99999999999999999999d", "106751d24h", "9999999h", "soon", "1 s"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is read as %v, want a refusal", text, got)
		}
	}
}

func TestWhatIsWrittenIsReadAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(maxDuration)).Draw(t, "duration"))
		if unit := rapid.SampledFrom([]time.Duration{1, time.Second, time.Minute, time.Hour, day}).Draw(t, "unit"); unit > 1 {
			d = d.Truncate(unit)
		}
		if got, err := parseDuration(formatDuration(d)); err != nil || got != d {
			t.Fatalf("%v is written %q and read as %v, %v", d, formatDuration(d), got, err)
		}
		n := rapid.Int64Range(0, 1<<40).Draw(t, "size") << rapid.IntRange(0, 21).Draw(t, "shift")
		if got, err := parseSize(formatSize(n)); err != nil || got != n {
			t.Fatalf("%d is written %q and read as %v, %v", n, formatSize(n), got, err)
		}
	})
}

func TestSizesAreBytesKiBOrMiB(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "65536": 65536, "512KiB": 512 << 10, "3MiB": 3 << 20} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q is read as %v, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1MB", "1kb", "KiB", "-1", "1.5MiB", "+1", "1 MiB", "9223372036854775807KiB", "99999999999999999999"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is read as %d, want a refusal", text, got)
		}
	}
}
