package bench

import (
	"crypto/rand"
	"sync/atomic"
)

// bodies gives responses of one size, which no store can make smaller: none repeats a
// part of one that came shortly before.
type bodies struct {
	from []byte
	size int
	at   *atomic.Uint64
}

// bodyBytes is what responses are cut from, beside the length of one.
const bodyBytes = 4 << 20

func newBodies(size int) bodies {
	b := bodies{from: make([]byte, bodyBytes+size), size: size, at: &atomic.Uint64{}}
	_, _ = rand.Read(b.from) // it never fails
	return b
}

func (b bodies) next() []byte {
	// Far from the last, and each place but one in turn.
	start := b.at.Add(0x9e3779b97f4a7c15) >> 11 % bodyBytes
	return b.from[start : start+uint64(b.size) : start+uint64(b.size)]
}
