package main

import (
	"fmt"
	"io"
	"strings"
)

// bar shows on a terminal how far a command is. The zero value shows nothing.
type bar struct {
	to io.Writer
	// total is the end; 0 where nobody knows.
	total int64
}

func (b bar) show(done int64, what string) {
	if b.to != nil {
		_, _ = fmt.Fprint(b.to, "\r\x1b[K", barLine(done, b.total), " ", what)
	}
}

func (b bar) clear() {
	if b.to != nil {
		_, _ = fmt.Fprint(b.to, "\r\x1b[K")
	}
}

const barWidth = 30

// barLine gives a line of which as much is filled as done is of total. More may be
// done than was counted, since there may be more to do meanwhile.
func barLine(done, total int64) string {
	if total <= 0 {
		return fmt.Sprint(done)
	}
	done = max(0, done)
	total = max(total, done)
	filled := int(float64(done) / float64(total) * barWidth)
	return fmt.Sprintf("[%s%s] %3d%%  %d of %d", strings.Repeat("#", filled), strings.Repeat("-", barWidth-filled),
		int(float64(done)/float64(total)*100), done, total)
}
