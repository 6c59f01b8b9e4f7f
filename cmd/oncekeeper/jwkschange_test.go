package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

// However many tokens name a key that is not known, keys are asked for once in ten
// seconds, and long before it would be their turn.
func TestAKeyThatIsNotKnownIsAskedForSoonAndNotOften(t *testing.T) {
	keys, _ := issuing(t)
	var asked atomic.Int64
	from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(keys))
	}))
	defer from.Close()
	clk, issuer := clock.NewManual(epoch), &auth.Issuer{}
	k := newRemoteKeys(from.URL, from.URL, issuer, slog.New(slog.DiscardHandler))
	k.clock = clk
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		k.look(ctx)
		k.run(ctx)
	}()
	await := func(timers int) {
		t.Helper()
		patience, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := clk.AwaitTimers(patience, timers); err != nil {
			t.Fatal(err)
		}
	}
	await(1) // its next turn
	for range 100 {
		issuer.UnknownKey()
	}
	await(2) // and the end of its rest
	if n := asked.Load(); n != 1 {
		t.Errorf("before its rest is over it asked %d times", n)
	}
	clk.Advance(keysAgainAfter)
	for asked.Load() < 2 {
		await(1)
	}
	// What came in while it rested was one more to ask about, and no more than that.
	clk.Advance(keysAgainAfter)
	await(1)
	stop()
	<-over
	if n := asked.Load(); n > 3 {
		t.Errorf("a hundred tokens had it ask %d times", n)
	}
}

func TestWhatIsNoKeySetIsToldWithItsReasonAndNoSecret(t *testing.T) {
	var followed atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	defer elsewhere.Close()
	patient := make(chan struct{})
	for name, c := range map[string]struct {
		want   string
		answer http.HandlerFunc
	}{
		"one that lies elsewhere": {"it answers 302", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/secret", http.StatusFound)
		}},
		"one that is too large": {"more than 1 MiB", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxFileBytes+1)) }},
		"none in time":          {"it does not answer within", func(http.ResponseWriter, *http.Request) { <-patient }},
		"half of one in time": {"it does not answer within", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":["secret"`))
			w.(http.Flusher).Flush()
			<-patient
		}},
		"a page": {"no JSON Web Key Set", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>secret</html>")) }},
	} {
		from := httptest.NewServer(c.answer)
		log := &lines{grown: make(chan struct{}, 1)}
		k := newRemoteKeys(strings.Replace(from.URL, "http://", "http://u:secret@", 1)+"/?secret", from.URL, &auth.Issuer{}, slog.New(slog.NewJSONHandler(log, nil)))
		if strings.Contains(name, "in time") {
			k.timeout = 100 * time.Millisecond
		}
		k.look(t.Context())
		if said := log.String(); !strings.Contains(said, "the JWKS cannot be had") || !strings.Contains(said, c.want) || strings.Contains(said, "secret") {
			t.Errorf("of %s the log says %q, want %q", name, said, c.want)
		}
		if strings.Contains(name, "in time") {
			patient <- struct{}{}
		}
		from.Close()
	}
	if followed.Load() {
		t.Error("a redirection was followed")
	}
}
