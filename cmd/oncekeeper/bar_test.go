package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func TestABarIsAsFullAsTheWorkIsDone(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		want        string
	}{
		{0, 10, "[------------------------------]   0%  0 of 10"},
		{5, 10, "[###############---------------]  50%  5 of 10"},
		{10, 10, "[##############################] 100%  10 of 10"},
		{12, 10, "[##############################] 100%  12 of 12"},
		{7, 0, "7"},
		{1 << 62, 1<<63 - 1, "[###############---------------]  50%  4611686018427387904 of 9223372036854775807"},
	} {
		if got := barLine(c.done, c.total); got != c.want {
			t.Errorf("%d of %d is %q, want %q", c.done, c.total, got, c.want)
		}
	}
}

func TestSweepShowsABarOnATerminalAndItsCountAlone(t *testing.T) {
	onBothClocks(t, func(t *testing.T, keeper pb.IdempotencyServiceClient, advance func(time.Duration)) {
		for _, flags := range [][]string{nil, {"--json"}, {"--max", "2"}} {
			for i := range 3 {
				done(t, keeper, "acme", "pay", fmt.Sprint(i))
			}
			advance(25 * time.Hour)
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"sweep"}, flags...), console{out: &out, err: &errs, shows: true})
			if code != 0 || strings.ContainsAny(out.String(), "\r\x1b#") || strings.Count(out.String(), "\n") != 1 {
				t.Errorf("sweep %v exits with %d and prints %q", flags, code, &out)
			}
			if drawn := errs.String(); !strings.Contains(drawn, "0 of ") || !strings.HasSuffix(drawn, "\r\x1b[K") {
				t.Errorf("sweep %v draws %q", flags, drawn)
			}
		}
	})
}
