package lifecycle_test

import (
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// The rules run inside a store's committer: what they cost, every call waits for.

func BenchmarkBeginAndComplete(b *testing.B) {
	begin := asked(func(c *lifecycle.Begin) { c.CallID = "call" })
	response := &oncekeeper.Response{Body: make([]byte, 256), ContentType: "application/json"}
	b.ReportAllocs()
	for b.Loop() {
		rec, _ := lifecycle.Apply(nil, begin, start)
		_, verdict := lifecycle.Apply(rec, lifecycle.Settle{
			Key: key, Token: rec.Token, As: oncekeeper.SettledComplete, Response: response,
		}, start+1)
		if verdict != lifecycle.Settled {
			b.Fatal(verdict)
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	rec, _ := lifecycle.Apply(nil, ask, start)
	rec, _ = lifecycle.Apply(rec, lifecycle.Settle{
		Key: key, Token: rec.Token, As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{Body: make([]byte, 256)},
	}, start)
	b.ReportAllocs()
	for b.Loop() {
		if _, verdict := lifecycle.Apply(rec, ask, start+1); verdict != lifecycle.Replayed {
			b.Fatal(verdict)
		}
	}
}

func BenchmarkRepeatedCompletionOfAMebibyte(b *testing.B) {
	rec, _ := lifecycle.Apply(nil, ask, start)
	settle := lifecycle.Settle{
		Key: key, Token: rec.Token, As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{Body: make([]byte, 1<<20)},
	}
	rec, _ = lifecycle.Apply(rec, settle, start)
	settle.Response = &oncekeeper.Response{Body: make([]byte, 1<<20)}
	b.ReportAllocs()
	for b.Loop() {
		if _, verdict := lifecycle.Apply(rec, settle, start+1); verdict != lifecycle.Settled {
			b.Fatal(verdict)
		}
	}
}
