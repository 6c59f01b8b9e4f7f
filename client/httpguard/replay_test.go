package httpguard_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
)

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Case 8 and 19: byte for byte, and empty as empty.
func TestAReplayIsWhatTheFirstCallerGot(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, "charged")
	_ = z.Close()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		status  int
		content string // "": none
		body    string
	}{
		"JSON as it was written": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(201)
			_, _ = io.WriteString(w, "{ \"b\":1,\"a\" : 2.50}\n")
		}, 201, "application/json", "{ \"b\":1,\"a\" : 2.50}\n"},
		"a type that was guessed": {answers(200, "<html><body>charged"), 200, "text/html; charset=utf-8", "<html><body>charged"},
		"a type that is suppressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "<html>")
		}, 200, "", "<html>"},
		"nothing at all":  {func(http.ResponseWriter, *http.Request) {}, 200, "", ""},
		"an empty 201":    {answers(201, ""), 201, "", ""},
		"204":             {answers(204, ""), 204, "", ""},
		"204 with a body": {answers(204, "which is none"), 204, "", ""},
		"303": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/charges/1")
			w.WriteHeader(303)
		}, 303, "", ""},
		"304":                  {answers(304, ""), 304, "", ""},
		"404":                  {answers(404, "no such account"), 404, "text/plain; charset=utf-8", "no such account"},
		"bytes of no encoding": {answers(200, "\x00\xff\xfe"), 200, "application/octet-stream", "\x00\xff\xfe"},
		"gzip": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write(zipped.Bytes())
		}, 200, "text/plain", zipped.String()},
		"a length that was named": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "7")
			_, _ = io.WriteString(w, "charged")
		}, 200, "text/plain; charset=utf-8", "charged"},
		"a length that is none": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "seven")
			_, _ = io.WriteString(w, "charged")
		}, 200, "text/plain; charset=utf-8", "charged"},
		"many writes": {func(w http.ResponseWriter, _ *http.Request) {
			for range 1000 {
				_, _ = io.WriteString(w, "charged ")
			}
		}, 200, "text/plain; charset=utf-8", strings.Repeat("charged ", 1000)},
		"a second WriteHeader": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			w.WriteHeader(500)
			w.Header().Set("Location", "/late")
		}, 201, "", ""},
		"early hints": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(103)
			w.WriteHeader(102)
			w.WriteHeader(201)
		}, 201, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, startKeeper(t), httpguard.Config{}, c.handler)
			for n := range 3 {
				got := g.charge(t, "k", withHeader("Accept-Encoding", "identity"))
				if got.status != c.status || got.body != c.body || got.header.Get("Content-Type") != c.content || got.replayed() != (n > 0) {
					t.Errorf("answer %d is %d %q of type %q, a replay: %t; want %d %q of type %q", n, got.status, got.body, got.header.Get("Content-Type"), got.replayed(), c.status, c.body, c.content)
				}
				if got.header.Get("Location") == "/late" {
					t.Errorf("answer %d has a header that was set behind WriteHeader", n)
				}
			}
			if got := g.guard.Stats(); got != (httpguard.Stats{Ran: 1, Replayed: 2}) {
				t.Errorf("counted %+v", got)
			}
		})
	}
}

func TestOfAHeaderOnlyWhatIsNamedIsKept(t *testing.T) {
	k := startKeeper(t)
	first := http.Header{
		"Location": {"/charges/1"}, "Link": {`</a>; rel="a"`, `</b>; rel="b"`}, "Etag": {`"1"`}, "Cache-Control": {"no-store"},
		"X-Named": {"1", "2"}, "X-Route": {"3"}, "X-Other": {"4"}, "X-Outside": {"inside"},
		"Set-Cookie": {"session=secret"}, "Authorization": {"Bearer secret"}, "Www-Authenticate": {"Basic secret"}, "Authentication-Info": {"secret"},
		"Access-Control-Allow-Origin": {"https://one.example"}, "Date": {"Thu, 01 Jan 1970 00:00:00 GMT"}, "Retry-After": {"7"},
		"Idempotency-Replayed": {"true"}, "Keep-Alive": {"timeout=5"},
	}
	g := &guarded{}
	guard := g.handler(t, k, httpguard.Config{ReplayHeader: []string{"x-named"}}, func(w http.ResponseWriter, _ *http.Request) {
		if w.Header().Get("X-Outside") != "outside" {
			t.Error("the handler does not see what was set outside of the guard")
		}
		w.Header().Del("X-Taken")
		maps.Copy(w.Header(), first)
		w.WriteHeader(201)
	}, []httpguard.Option{httpguard.WithReplayHeader("X-Route", "X-Missing", "x-route")})
	g.Server = startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outside", "outside")
		w.Header().Set("X-Taken", "outside")
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		guard.ServeHTTP(w, r)
	}))

	got := g.charge(t, "k", withHeader("X-Request-Id", "r1"))
	mustBe(t, got, 201)
	for name, values := range first {
		if name != "Idempotency-Replayed" && !slices.Equal(got.header[name], values) {
			t.Errorf("the first caller gets %s: %q, want %q", name, got.header[name], values)
		}
	}
	if got.header.Get("X-Taken") != "" || got.header.Get("X-Request-Id") != "r1" || got.replayed() {
		t.Errorf("the first caller gets %v", got.header)
	}
	got = g.charge(t, "k", withHeader("X-Request-Id", "r2"))
	want := http.Header{
		"Location": {"/charges/1"}, "Link": first["Link"], "Etag": {`"1"`}, "Cache-Control": {"no-store"}, "X-Named": {"1", "2"}, "X-Route": {"3"},
		"Idempotency-Replayed": {"true"}, "X-Outside": {"outside"}, "X-Taken": {"outside"}, "X-Request-Id": {"r2"}, "Content-Length": {"0"},
	}
	got.header.Del("Date")
	if !maps.EqualFunc(got.header, want, slices.Equal) {
		t.Errorf("a replay has %v, want %v", got.header, want)
	}
	rec := k.Record(charge("k"))
	for _, entry := range rec.Outcome.Response.Metadata {
		if strings.Contains(string(entry.Value), "secret") || entry.Name == "Set-Cookie" || entry.Name == "Authorization" {
			t.Errorf("%s is stored", entry.Name)
		}
	}
}

func TestAHeaderIsKeptAsFarAsTheLimitsGo(t *testing.T) {
	g := serve(t, startKeeper(t), httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/charges/1")
		w.Header().Set("X-Big", strings.Repeat("x", oncekeeper.MaxMetadataBytes))
		w.Header()["X-Many"] = slices.Repeat([]string{"1"}, 100)
		w.WriteHeader(201)
	}, httpguard.WithReplayHeader("X-Big", "X-Many"))
	mustBe(t, g.charge(t, "k"), 201)
	got := g.charge(t, "k")
	if got.header.Get("Location") != "/charges/1" || got.header.Get("X-Big") != "" || len(got.header["X-Many"]) != 63 || !got.replayed() {
		t.Errorf("a replay has %d of many, and %q", len(got.header["X-Many"]), got.header.Get("Location"))
	}
}

// What others kept under a key of this operation: another language's guard, or an
// operator.
func TestWhatAnotherGuardKeptIsReplayedAsFarAsHTTPGoes(t *testing.T) {
	header := func(name, value string) oncekeeper.MetadataEntry {
		return oncekeeper.MetadataEntry{Kind: oncekeeper.MetadataHeader, Name: name, Value: []byte(value)}
	}
	for name, c := range map[string]struct {
		ended  client.Ended
		status int
		kind   string // of the problem; "": it is an answer
		body   string
	}{
		"no status code":       {client.Ended{As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{Body: []byte("{}"), ContentType: "application/json"}}, 200, "", "{}"},
		"entries of others":    {client.Ended{As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{StatusCode: 201, Metadata: []oncekeeper.MetadataEntry{header("set-cookie", "a"), header("x-split", "a\r\nSet-Cookie: b"), header("location", "/charges/1"), {Kind: oncekeeper.MetadataTrailer, Name: "x-trailer", Value: []byte("a")}}}}, 201, "", ""},
		"a body where none is": {client.Ended{As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{StatusCode: 204, Body: []byte("x")}}, 204, "", ""},
		"no answer of HTTP":    {client.Ended{As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{StatusCode: 999}}, 409, "urn:oncekeeper:response-not-kept", ""},
		"an informational one": {client.Ended{As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{StatusCode: 103}}, 409, "urn:oncekeeper:response-not-kept", ""},
		"a failure":            {client.Ended{As: oncekeeper.SettledFinal, Status: &oncekeeper.Status{Code: int32(codes.FailedPrecondition), Message: "the account is closed"}}, 400, "urn:oncekeeper:failed", ""},
		"an unknown failure":   {client.Ended{As: oncekeeper.SettledFinal, Status: &oncekeeper.Status{Code: int32(codes.DataLoss), Message: "lost"}}, 500, "urn:oncekeeper:failed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := startKeeper(t)
			g := serve(t, k, httpguard.Config{}, answers(201, "mine"))
			begun, err := k.Begin(t.Context(), client.BeginRequest{Key: charge("k")})
			if err != nil || begun.Grant == nil {
				t.Fatalf("Begin gives %+v, %v", begun, err)
			}
			if _, err := k.Settle(t.Context(), client.Settlement{Key: charge("k"), Token: begun.Grant.Token, Ended: c.ended}); err != nil {
				t.Fatal(err)
			}
			got := g.charge(t, "k")
			if c.kind != "" {
				refusal(t, got, c.status, c.kind)
			} else if got.status != c.status || got.body != c.body || !got.replayed() {
				t.Errorf("the answer is %d %q, a replay: %t", got.status, got.body, got.replayed())
			}
			if got.header.Get("Set-Cookie") != "" || got.header.Get("X-Split") != "" || got.trailer != nil || g.runs() != 0 {
				t.Errorf("the header is %v, the trailer %v, after %d runs", got.header, got.trailer, g.runs())
			}
		})
	}
}
