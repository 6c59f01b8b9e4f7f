package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
)

// stepped is a host's clock that is off by what a file says at the moment. It runs on
// evenly otherwise, as a monotonic clock does through a step.
type stepped struct {
	clock.Clock
	file string
}

// Now implements clock.Clock.
func (c stepped) Now() time.Time {
	now := c.Clock.Now()
	text, err := os.ReadFile(c.file)
	if err != nil {
		return now // not stepped yet
	}
	off, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return now
	}
	return now.Add(time.Duration(off))
}
