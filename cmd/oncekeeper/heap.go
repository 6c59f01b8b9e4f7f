package main

import (
	"os"
	"runtime"
)

// roomBytes is how much garbage a server may make before it is collected, however
// little is alive.
const roomBytes = 64 << 20

// giveRoom has the garbage collector run less often, until the function it gives is
// called. Go collects when the heap has doubled. A server keeps little alive between
// calls and makes much garbage, so it would collect some ten times a second, and each
// time look through the stacks of all calls under way. Here the heap has roomBytes
// from the start that nobody touches: they count, and take no memory. Whoever says how
// the collector is to run is not interfered with.
func giveRoom() (end func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	room := make([]byte, roomBytes)
	return func() { runtime.KeepAlive(room) }
}
