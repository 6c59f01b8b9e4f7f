package httpguard_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
)

// Case 9.
func TestAKeyIsOneStringOrRefusedBeforeTheHandler(t *testing.T) {
	for name, values := range map[string][]string{
		"empty":                   {""},
		"empty in quotes":         {`""`},
		"white space in quotes":   {`" "`},
		"sent twice":              {"a", "b"},
		"sent twice, alike":       {`"k"`, `"k"`},
		"quoted and bare, both":   {`"k"`, "k"},
		"a list":                  {`"a", "b"`},
		"a list of bare keys":     {"a, b"},
		"a parameter":             {`"k";v=1`},
		"another structured type": {":aGVsbG8=:"},
		"no closing quote":        {`"k`},
		"an unknown escape":       {`"\k"`},
		"not ASCII":               {`"caf` + "\xc3\xa9" + `"`},
		"white space at an end":   {`"k "`},
		"one byte too long":       {strings.Repeat("k", 256)},
		"8 KiB":                   {strings.Repeat("k", 8192)},
		"half a megabyte":         {strings.Repeat("k", 512<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, startKeeper(t), httpguard.Config{}, answers(201, "charged"), httpguard.WithOptionalKey())
			got := g.charge(t, "", withHeader("Idempotency-Key", values...))
			p := refusal(t, got, http.StatusBadRequest, "urn:oncekeeper:invalid-request")
			if !strings.HasPrefix(p.Detail, "Idempotency-Key ") || p.Reason != "INVALID_REQUEST" || len(p.Detail) > 200 {
				t.Errorf("the refusal says %q, %s; want what is wrong with the field", p.Detail, p.Reason)
			}
			if g.runs() != 0 || g.guard.Stats() != (httpguard.Stats{Refused: 1}) {
				t.Errorf("the handler ran %d times, and %+v were counted", g.runs(), g.guard.Stats())
			}
		})
	}
}

// Case 9: the spellings of one key.
func TestQuotedAndBareAreOneKey(t *testing.T) {
	for name, spellings := range map[string][]string{
		"a UUID":      {`"8e03978e-40d5-43e8-bc93-6894a57f9324"`, "8e03978e-40d5-43e8-bc93-6894a57f9324"},
		"a number":    {"42", `"42"`},
		"255 bytes":   {strings.Repeat("k", 255), `"` + strings.Repeat("k", 255) + `"`},
		"with spaces": {`"k"`, " \t\"k\" \t"},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, startKeeper(t), httpguard.Config{}, answers(201, "charged"))
			mustBe(t, g.charge(t, spellings[0]), 201)
			if got := g.charge(t, spellings[1]); got.status != 201 || !got.replayed() || g.runs() != 1 {
				t.Errorf("%q behind %q gives %d, a replay: %t, after %d runs", spellings[1], spellings[0], got.status, got.replayed(), g.runs())
			}
		})
	}
}

func TestWhatAnEscapeSaysIsTheKey(t *testing.T) {
	k := startKeeper(t)
	g := serve(t, k, httpguard.Config{}, answers(201, "charged"))
	mustBe(t, g.charge(t, `"a\"b\\c"`), 201)
	if k.Record(charge(`a"b\c`)) == nil {
		t.Error(`there is no record of a"b\c`)
	}
	for _, other := range []string{`"K"`, `"k"`, "Café"[:3]} {
		mustBe(t, g.charge(t, other), 201)
	}
	if g.runs() != 4 {
		t.Errorf("%d runs, want one for each key", g.runs())
	}
}

func TestARequestWithoutAKeyIsRefusedOrRunsUnguarded(t *testing.T) {
	t.Run("required", func(t *testing.T) {
		g := serve(t, startKeeper(t), httpguard.Config{Documentation: "/docs/keys"}, answers(201, "charged"))
		got := g.charge(t, "")
		refusal(t, got, http.StatusBadRequest, "urn:oncekeeper:key-required")
		if link := got.header.Get("Link"); link != `</docs/keys>; rel="describedby"` {
			t.Errorf("the refusal links %q, want the documentation", link)
		}
		if g.runs() != 0 || g.guard.Stats() != (httpguard.Stats{Refused: 1}) {
			t.Errorf("%d runs, counted %+v", g.runs(), g.guard.Stats())
		}
	})
	t.Run("optional", func(t *testing.T) {
		g := serve(t, startKeeper(t), httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
			if _, ok := httpguard.AttemptFrom(r.Context()); ok || httpguard.Takeover(r.Context()) || httpguard.SetResource(r.Context(), "x") != nil {
				t.Error("an unguarded request has an attempt")
			}
			httpguard.SettleAs(r.Context(), oncekeeper.SettledUnknown)
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(body)
			w.(http.Flusher).Flush() // it is the server's own writer
		}, httpguard.WithOptionalKey())
		for range 2 {
			if got := g.charge(t, ""); got.status != 200 || got.replayed() || got.body != `{"amount": 5}` {
				t.Errorf("the answer is %d %q", got.status, got.body)
			}
		}
		if g.runs() != 2 || g.guard.Stats() != (httpguard.Stats{Keyless: 2}) {
			t.Errorf("%d runs, counted %+v", g.runs(), g.guard.Stats())
		}
	})
}

func TestSafeMethodsPass(t *testing.T) {
	g := serve(t, startKeeper(t), httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush() // it is the server's own writer
	})
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace} {
		// A key on them is no key, whatever it looks like.
		mustBe(t, g.charge(t, `"k`, func(r *http.Request) { r.Method, r.Body, r.ContentLength = method, nil, 0 }), 200)
	}
	if g.runs() != 4 || g.guard.Stats() != (httpguard.Stats{NotGuarded: 4}) {
		t.Errorf("%d runs, counted %+v", g.runs(), g.guard.Stats())
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "PURGE"} {
		refusal(t, g.charge(t, "", func(r *http.Request) { r.Method = method }), http.StatusBadRequest, "urn:oncekeeper:key-required")
	}
}

func TestTwoTenantsEqualKeysAreTwoKeys(t *testing.T) {
	tenant := func(r *http.Request) (string, error) { return r.Header.Get("X-Account"), nil }
	g := serve(t, startKeeper(t), httpguard.Config{Tenant: tenant}, answers(201, "charged"))
	for _, account := range []string{"acme", "emca"} {
		if got := g.charge(t, "k", withHeader("X-Account", account)); got.status != 201 || got.replayed() {
			t.Errorf("%s gets %d, a replay: %t", account, got.status, got.replayed())
		}
	}
	// One that the service does not take is no fault of the caller's.
	got := g.charge(t, "k", withHeader("X-Account", strings.Repeat("a", 129)))
	if p := refusal(t, got, http.StatusInternalServerError, "about:blank"); strings.Contains(got.body, "aaa") {
		t.Errorf("the refusal says %q", p.Detail)
	}
}

func TestARequestOfNoTenantIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		kind   string
	}{
		"nobody":        {oncekeeper.ErrUnauthenticated, 403, "urn:oncekeeper:permission-denied"},
		"not allowed":   {oncekeeper.ErrPermissionDenied, 403, "urn:oncekeeper:permission-denied"},
		"a fault of us": {errors.New("the directory at secret.internal is down"), 500, "about:blank"},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, startKeeper(t), httpguard.Config{Tenant: func(*http.Request) (string, error) { return "acme", c.err }}, answers(201, "charged"))
			got := g.charge(t, "k")
			refusal(t, got, c.status, c.kind)
			if strings.Contains(got.body, "secret") || g.runs() != 0 || g.guard.Stats() != (httpguard.Stats{Refused: 1}) {
				t.Errorf("it says %q after %d runs; counted %+v", got.body, g.runs(), g.guard.Stats())
			}
		})
	}
}
