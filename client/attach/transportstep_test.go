package attach_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/attach"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

var derivedKey = regexp.MustCompile(`^"ok1-[0-9a-f]{40}"$`)

// posting gives how a request of ctx is answered, its body read and closed.
func posting(t *testing.T, ctx context.Context, c *http.Client, url, body string) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Body.Close()
}

func httpKeys(a *api) []string {
	var keys []string
	for _, c := range a.seen() {
		keys = append(keys, strings.Join(c.keys, " and "))
	}
	return keys
}

func all(*http.Request) bool { return true }

func TestEveryAttemptMakesItsRequestsWithTheSameKeysOnWhicheverHost(t *testing.T) {
	keeper := oncetest.Start(t).Client()
	keysOfAttempt := func(parent oncekeeper.Key) []string {
		a := &api{}
		c, url := serveHTTP(t, a, attach.WithRequests(all))
		_ = attempting(t, keeper, parent, func(ctx context.Context) error {
			for _, made := range []func() (int, error){
				func() (int, error) { return posting(t, attach.Step(ctx, "debit"), c, url+"/charges", "{}") },
				func() (int, error) { return posting(t, attach.Step(ctx, "fee"), c, url+"/charges", "{}") },
				func() (int, error) { return posting(t, attach.Step(ctx, "debit"), c, url+"/refunds", "{}") },
				func() (int, error) { return posting(t, ctx, c, url+"/charges", `{"a":1,"b":2}`) },
				func() (int, error) { return posting(t, ctx, c, url+"/charges", `{"b":2, "a":1}`) }, // the same, again
				func() (int, error) { return posting(t, ctx, c, url+"/charges?now", `{"a":1,"b":2}`) },
			} {
				if code, err := made(); err != nil || code != 201 {
					t.Fatalf("it is answered %d, %v", code, err)
				}
			}
			return errCrashed
		})
		return httpKeys(a)
	}
	first, takeover := keysOfAttempt(transfer), keysOfAttempt(transfer)
	if !slices.Equal(first, takeover) {
		t.Errorf("the first attempt's keys are %q\nand the next one's %q", first, takeover)
	}
	other := keysOfAttempt(oncekeeper.Key{Tenant: "acme", Operation: "transfers.make", ID: "order-18"})
	keys := slices.Sorted(slices.Values(append(first, other...)))
	if len(slices.Compact(keys)) != 12 || slices.ContainsFunc(keys, func(k string) bool { return !derivedKey.MatchString(k) && k != "" }) {
		t.Errorf("two parents' requests have the keys %q, want 12 different ones", keys)
	}
}

func TestAnEqualRequestHasTheSameKeyUntilTheOutcomeOfTheFirstIsKnown(t *testing.T) {
	keeper := oncetest.Start(t).Client()
	answering := func(code int, reason string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if reason != "" {
				w.Header().Set("Oncekeeper-Reason", reason)
			}
			w.WriteHeader(code)
		}
	}
	for name, c := range map[string]struct {
		first func(http.ResponseWriter)
		same  bool
	}{
		"201":                           {answering(201, ""), false},
		"400":                           {answering(400, ""), false},
		"a response that was not kept":  {answering(409, "RESPONSE_NOT_KEPT"), false},
		"400 that a guard refuses with": {answering(400, "INVALID_REQUEST"), true},
		"404, maybe of a takeover":      {answering(404, ""), true},
		"402, maybe of a takeover":      {answering(402, ""), true},
		"409":                           {answering(409, ""), true},
		"429":                           {answering(429, ""), true},
		"500":                           {answering(500, ""), true},
		"a connection that breaks":      {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{answers: []func(http.ResponseWriter){c.first, answering(201, "")}}
			client, url := serveHTTP(t, a, attach.WithRequests(all))
			_ = attempting(t, keeper, oncekeeper.Key{Tenant: "acme", Operation: "transfers.make", ID: name}, func(ctx context.Context) error {
				for range 3 {
					_, _ = posting(t, ctx, client, url, "{}")
				}
				return nil
			})
			keys := httpKeys(a)
			if len(keys) != 3 || (keys[0] == keys[1]) != c.same || keys[1] == keys[2] || keys[0] == keys[2] {
				t.Errorf("the keys are %q; want the first two the same: %t, and the third, after 201, another", keys, c.same)
			}
		})
	}
}

func TestTwoEqualRequestsAtOnceAreRefused(t *testing.T) {
	keeper := oncetest.Start(t).Client()
	a := &api{}
	c, url := serveHTTP(t, a, attach.WithRequests(all))
	for name, step := range map[string]string{"by their bodies": "", "by their step": "debit"} {
		_ = attempting(t, keeper, oncekeeper.Key{Tenant: "acme", Operation: "transfers.make", ID: name}, func(ctx context.Context) error {
			if step != "" {
				ctx = attach.Step(ctx, step)
			}
			before := len(a.seen())
			a.mu.Lock()
			a.answers = []func(http.ResponseWriter){func(w http.ResponseWriter) {
				if _, err := posting(t, ctx, c, url, "{}"); !errors.Is(err, attach.ErrAtOnce) {
					t.Errorf("%s: the second is told %v, want ErrAtOnce", name, err)
				}
				w.WriteHeader(201)
			}}
			a.mu.Unlock()
			if code, err := posting(t, ctx, c, url, "{}"); err != nil || code != 201 || len(a.seen()) != before+1 {
				t.Errorf("%s: the first is answered %d, %v, and %d requests were sent", name, code, err, len(a.seen())-before)
			}
			return nil
		})
	}
}

func TestARequestThatNamesNoStepMustBeTold(t *testing.T) {
	keeper := oncetest.Start(t).Client()
	a, b := &api{}, &api{}
	selected, url := serveHTTP(t, a, attach.WithRequests(all))
	plain, plainURL := serveHTTP(t, b)
	_ = attempting(t, keeper, transfer, func(ctx context.Context) error {
		once := func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, io.MultiReader(strings.NewReader("{}")))
			if err != nil {
				t.Fatal(err)
			}
			response, err := selected.Do(r)
			if err == nil {
				_ = response.Body.Close()
			}
			return err
		}
		if err := once(ctx); err == nil || !strings.Contains(err.Error(), "attach.Step") {
			t.Errorf("a body that can be read once gives %v, want a word about attach.Step", err)
		}
		if err := once(attach.Step(ctx, "upload")); err != nil {
			t.Errorf("with its step named it gives %v", err)
		}
		if _, err := posting(t, ctx, selected, url, strings.Repeat(" ", 4<<20+1)); err == nil || !strings.Contains(err.Error(), "attach.Step") {
			t.Errorf("a body too large to be told by gives %v, want a word about attach.Step", err)
		}
		// With no step, one that is not selected has no key; with a step it has one.
		if _, err := posting(t, ctx, plain, plainURL, "{}"); err != nil {
			t.Error(err)
		}
		if _, err := posting(t, attach.Step(ctx, "mail"), plain, plainURL, "{}"); err != nil {
			t.Error(err)
		}
		if _, err := posting(t, attach.WithKey(attach.Step(ctx, "mail"), "k"), plain, plainURL, "{}"); err != nil {
			t.Error(err)
		}
		return nil
	})
	keys := append(httpKeys(a), httpKeys(b)...)
	if len(keys) != 4 || !derivedKey.MatchString(keys[0]) || keys[1] != "" || !derivedKey.MatchString(keys[2]) || keys[3] != `"k"` {
		t.Errorf("the keys are %q; want a derived one, none, a derived one, and the one that was named", keys)
	}
}
