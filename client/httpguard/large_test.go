package httpguard_test

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
)

// limit is what the default policy keeps of a response.
const limit = 1 << 20

// writes answers with size bytes, chunk by chunk.
func writes(size, chunk int, declare bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		if declare {
			w.Header().Set("Content-Length", strconv.Itoa(size))
		}
		w.WriteHeader(201)
		piece := bytes.Repeat([]byte("x"), chunk)
		for left := size; left > 0; left -= min(left, chunk) {
			if n, err := w.Write(piece[:min(left, chunk)]); n != min(left, chunk) || err != nil {
				panic(err)
			}
		}
	}
}

// Case 19.
func TestTheFirstCallerHasALargeAnswerWhole(t *testing.T) {
	for name, c := range map[string]struct {
		size, chunk int
		declare     bool
	}{
		"nothing":                {0, 1, false},
		"to the limit":           {limit, limit, false},
		"to the limit, bytewise": {limit, 1000, true},
		"one over":               {limit + 1, limit + 1, false},
		"one over, by itself":    {limit + 1, limit, false},
		"one over, declared":     {limit + 1, 7, true},
		"4 MiB and one":          {4<<20 + 1, 32 << 10, false},
		"100 MiB":                {100 << 20, 64 << 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			k := startKeeper(t)
			handler := writes(c.size, c.chunk, c.declare)
			g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
				if err := httpguard.SetResource(r.Context(), "/charges/1"); err != nil {
					t.Error(err)
				}
				handler(w, r)
			})
			response, err := g.Client().Transport.RoundTrip(g.request(t, "k", ""))
			if err != nil {
				t.Fatal(err)
			}
			size, err := io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if err != nil || size != int64(c.size) || response.StatusCode != 201 || response.Header.Get("Content-Type") != "application/octet-stream" {
				t.Fatalf("the first caller has %d bytes with %d (%v), want %d", size, response.StatusCode, err, c.size)
			}
			got := g.send(t, "k", "")
			if c.size <= limit {
				if got.status != 201 || len(got.body) != c.size || !got.replayed() {
					t.Errorf("a replay is %d with %d bytes", got.status, len(got.body))
				}
				return
			}
			p := refusal(t, got, http.StatusConflict, "urn:oncekeeper:response-not-kept")
			if p.Reason != "RESPONSE_NOT_KEPT" || p.Resource != "/charges/1" || p.ResponseStatus != 201 || got.header.Get("Link") != `</charges/1>; rel="related"` || got.header.Get("Retry-After") != "" {
				t.Errorf("the refusal is %+v with the link %q", p, got.header.Get("Link"))
			}
			if got := g.guard.Stats(); got != (httpguard.Stats{Ran: 1, TooLarge: 1, NotKept: 1}) || g.runs() != 1 {
				t.Errorf("counted %+v after %d runs", got, g.runs())
			}
		})
	}
}

func TestALargeAnswerDoesNotFillTheMemory(t *testing.T) {
	k, g := startKeeper(t), &guarded{}
	var before, at runtime.MemStats
	h := g.handler(t, k, httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		runtime.GC()
		runtime.ReadMemStats(&before)
		piece := bytes.Repeat([]byte("x"), 1<<20)
		for range 200 {
			_, _ = w.Write(piece)
		}
		runtime.GC()
		runtime.ReadMemStats(&at)
	}, nil)
	sink := &sink{writer: newWriter()}
	h.ServeHTTP(sink, (&guarded{Server: &noServer}).request(t, "k", ""))
	if sink.n != 200<<20 {
		t.Errorf("%d bytes came out, want 200 MiB", sink.n)
	}
	if grown := int64(at.HeapAlloc) - int64(before.HeapAlloc); grown > 50<<20 {
		t.Errorf("200 MiB of answer hold %d MiB of memory", grown>>20)
	}
}

// sink counts, and keeps nothing.
type sink struct {
	*writer
	n int
}

func (s *sink) Write(p []byte) (int, error) {
	s.n += len(p)
	return len(p), nil
}

// What an attempt gave that is superseded is never whole for its caller, though
// most of it had to go out before anyone knew.
func TestALargeAnswerThatDoesNotCountIsBrokenOff(t *testing.T) {
	for name, declare := range map[string]bool{"declared": true, "in chunks": false} {
		t.Run(name, func(t *testing.T) {
			k := startKeeper(t)
			g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
				takeOver(t, k, r, &oncekeeper.Response{StatusCode: 201, Body: []byte("other")})
				writes(limit+1000, 1000, declare)(w, r)
			})
			got := g.do(g.request(t, "k", ""))
			if got.err == nil || len(got.body) >= limit+1000 {
				t.Fatalf("its caller has %d bytes, and no error: want it broken off", len(got.body))
			}
			if again := g.send(t, "k", ""); again.body != "other" || !again.replayed() {
				t.Errorf("the retry gets %q, want the answer that counts", again.body)
			}
			if got := g.guard.Stats(); got.Superseded != 1 || got.Ran != 1 {
				t.Errorf("counted %+v", got)
			}
		})
	}
}

// takeOver lets the lease of r's attempt run out, and another attempt of its key
// answer.
func takeOver(t *testing.T, k *keeper, r *http.Request, response *oncekeeper.Response) {
	t.Helper()
	a, ok := httpguard.AttemptFrom(r.Context())
	if !ok {
		t.Error("the handler has no attempt")
		return
	}
	k.Clock.Advance(time.Hour) // this one was stopped
	scheme, digest := a.Fingerprint()
	next, err := k.Begin(t.Context(), client.BeginRequest{Key: a.Key(), FingerprintScheme: scheme, Fingerprint: digest})
	if err != nil || next.Grant == nil || next.Grant.Token <= a.Token() {
		t.Errorf("the other attempt was given %+v, %v", next, err)
		return
	}
	if _, err := k.Complete(t.Context(), a.Key(), next.Grant.Token, response); err != nil {
		t.Error(err)
	}
}

// Case 20: an attempt that is stopped in the middle of a large answer.
func TestALargeAnswerThatIsStoppedIsBrokenOffAndNotKept(t *testing.T) {
	k := startKeeper(t)
	k.connect(client.WithClock(k.Clock))
	g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
		writes(limit+1000, 1000, false)(w, r)
		k.Clock.Advance(time.Second)
		<-r.Context().Done()
	}, httpguard.WithMaxRunTime(time.Second))
	if got := g.do(g.request(t, "k", "")); got.err == nil {
		t.Errorf("its caller has %d bytes, and no error: want it broken off", len(got.body))
	}
	if got := k.state(t, "k"); got != oncekeeper.StateAbandoned {
		t.Errorf("the key is %v, want ABANDONED", got)
	}
}

// One that grows past the limit only once it is stopped is not let out at all.
func TestAnAnswerOfAStoppedAttemptIsNotLetOut(t *testing.T) {
	k := startKeeper(t)
	g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		writes(limit+1000, 1000, false)(w, r)
	}, httpguard.WithMaxRunTime(time.Millisecond))
	refusal(t, g.do(g.request(t, "k", "")), http.StatusServiceUnavailable, "urn:oncekeeper:outcome-unknown")
}

func TestAPointerThatIsNoAddressIsNoLink(t *testing.T) {
	for _, resource := range []string{"charges/ch_1", `/a>; rel="x"`, "/a b", "/caf\u00e9", "javascript:alert(1)"} {
		g := serve(t, startKeeper(t), httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
			if err := httpguard.SetResource(r.Context(), resource); err != nil {
				t.Error(err)
			}
			writes(limit+1, limit, false)(w, r)
		})
		mustBe(t, g.charge(t, "k"), 201)
		got := g.charge(t, "k")
		if p := refusal(t, got, http.StatusConflict, "urn:oncekeeper:response-not-kept"); p.Resource != resource || got.header.Get("Link") != "" {
			t.Errorf("%q is told as %q, with the link %q", resource, p.Resource, got.header.Get("Link"))
		}
	}
}
