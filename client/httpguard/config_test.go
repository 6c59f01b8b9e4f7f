package httpguard_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
)

func TestAGuardThatCannotWorkIsNotMade(t *testing.T) {
	keeper := &client.Client{}
	for name, c := range map[string]struct {
		keeper *client.Client
		cfg    httpguard.Config
		says   string
	}{
		"no client":               {nil, httpguard.Config{Tenant: acme}, "a client of Oncekeeper is required"},
		"no tenant":               {keeper, httpguard.Config{}, "Config.Tenant is required"},
		"a cookie to replay":      {keeper, httpguard.Config{Tenant: acme, ReplayHeader: []string{"set-cookie"}}, `"set-cookie" is never replayed`},
		"a bound below zero":      {keeper, httpguard.Config{Tenant: acme, MaxRequestBytes: -1}, "MaxRequestBytes -1 is below zero"},
		"documentation elsewhere": {keeper, httpguard.Config{Tenant: acme, Documentation: "the wiki"}, "Documentation is neither"},
	} {
		if _, err := httpguard.New(c.keeper, c.cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: New gives %v, want an error that says %q", name, err, c.says)
		}
	}
}

func TestWhatBelongsToOneCallerOrConnectionCannotBeNamed(t *testing.T) {
	for _, name := range []string{
		"Set-Cookie", "Cookie", "Authorization", "WWW-Authenticate", "Proxy-Authenticate", "Proxy-Authorization", "Authentication-Info",
		"Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Proxy-Connection", "Content-Length", "Date",
		"Access-Control-Allow-Origin", "access-control-allow-credentials", "Idempotency-Key", "Idempotency-Replayed", "Oncekeeper-Reason", "", "a b",
	} {
		mustPanic(t, "never replayed", httpguard.WithReplayHeader(name))
	}
}

func TestAnOperationThatCannotBeGuardedPanicsAtTheStart(t *testing.T) {
	for says, option := range map[string]httpguard.Option{
		"201 is always kept":                  httpguard.WithStatus(oncekeeper.SettledUnknown, 201),
		"204 is always kept":                  httpguard.WithTakeoverStatus(oncekeeper.SettledUnknown, 204),
		"99 is no status code":                httpguard.WithStatus(oncekeeper.SettledUnknown, 99),
		"600 is no status code":               httpguard.WithStatus(oncekeeper.SettledUnknown, 600),
		"not as Settlement(3)":                httpguard.WithStatus(oncekeeper.SettledFinal, 404),
		"not as Settlement(0)":                httpguard.WithTakeoverStatus(oncekeeper.SettledNot, 404),
		"WithMaxRequestBytes is not above":    httpguard.WithMaxRequestBytes(0),
		"lease, retention, attempts and run ": httpguard.WithMaxAttempts(-1),
	} {
		mustPanic(t, says, option)
	}
	for _, name := range []string{"", strings.Repeat("o", 257), "\xff"} {
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), "1 to 256 bytes") {
					t.Errorf("%q: the panic is %v", name, err)
				}
			}()
			guard(t).Operation(name)
		}()
	}
}

func guard(t *testing.T) *httpguard.Guard {
	t.Helper()
	g, err := httpguard.New(&client.Client{}, httpguard.Config{Tenant: acme})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func mustPanic(t *testing.T, says string, option httpguard.Option) {
	t.Helper()
	defer func() {
		if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), `"op"`) {
			t.Errorf("the panic is %v, want one that names the operation and says %q", err, says)
		}
	}()
	guard(t).Operation("op", option)(http.NotFoundHandler())
}
