package httpguard_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/attach"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
	"github.com/oncekeeper/oncekeeper/clock"
)

// A caller with attach's transport and a guard understand each other.
func TestACallerWithATransportWaitsForAnotherAttempt(t *testing.T) {
	k := startKeeper(t)
	// Another attempt runs, and is given up once this caller was told to wait.
	g := serve(t, k, httpguard.Config{}, answers(201, "mine"))
	begun := false
	caller := clock.NewManual(time.Now())
	transport := attach.NewTransport(base(func(r *http.Request) (*http.Response, error) {
		response, err := g.Client().Transport.RoundTrip(r)
		if err == nil && response.StatusCode == http.StatusConflict && !begun {
			begun = true
			go func() {
				if caller.AwaitTimers(t.Context(), 1) == nil { // it waits
					k.Clock.Advance(time.Hour)
					caller.Advance(time.Minute)
				}
			}()
		}
		return response, err
	}), attach.WithClock(caller), attach.WithMaxElapsed(time.Hour))
	if _, err := k.Begin(t.Context(), client.BeginRequest{Key: charge("order 17"), FingerprintScheme: "another"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(attach.WithKey(t.Context(), "order 17"))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 201 || string(body) != "mine" || !begun || g.guard.Stats() != (httpguard.Stats{Ran: 1, InProgress: 1}) {
		t.Errorf("the answer is %d %q, %v; told to wait: %t; counted %+v", response.StatusCode, body, err, begun, g.guard.Stats())
	}
}

type base func(*http.Request) (*http.Response, error)

func (b base) RoundTrip(r *http.Request) (*http.Response, error) { return b(r) }
