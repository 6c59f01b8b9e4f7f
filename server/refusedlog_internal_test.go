package server

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
)

func TestThoseWhoAreRefusedAreToldApartUpToABound(t *testing.T) {
	clk := clock.NewManual(time.Unix(0, 0))
	l := newRefusedLog(clk)
	var text strings.Builder
	to := slog.New(slog.NewTextHandler(&text, nil))
	for i := range 3 * maxRefused {
		l.log(t.Context(), to, fmt.Sprint("p-", i), "m")
	}
	if len(l.seen) > maxRefused+1 || strings.Count(text.String(), "principal=") != maxRefused+1 || strings.Count(text.String(), others) != 1 {
		t.Errorf("of %d principals %d are kept, in %d lines", 3*maxRefused, len(l.seen), strings.Count(text.String(), "principal="))
	}
	clk.Advance(refusedInterval)
	l.log(t.Context(), to, "late", "m")
	if !strings.Contains(text.String(), "principal=late") {
		t.Error("once a minute is over there is no room for another")
	}
}
