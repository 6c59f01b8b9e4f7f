package httpguard

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncekeeper/oncekeeper"
)

// FuzzAKeptAnswerIsReplayedAsItWas gives a kept answer as a replay, through
// net/http's server and client: its status and body come out as they went in, and
// an entry of its header too, or is left out; and nothing in them makes a header of
// its own or breaks the answer.
func FuzzAKeptAnswerIsReplayedAsItWas(f *testing.F) {
	f.Add(int32(201), "Location", "/charges/1", "application/json", []byte(`{}`))
	f.Add(int32(204), "Etag", `"1"`, "", []byte("none"))
	f.Add(int32(0), "Link", "</a>; rel=\"b\"\r\nSet-Cookie: a=b", "text/plain\r\nX: y", []byte{})
	f.Add(int32(99), "Set-Cookie", "a=b", "a", []byte("b"))
	f.Add(int32(304), "x-a b", " spaces ", "\x00", []byte("\r\n\r\n"))
	f.Add(int32(200), "Transfer-Encoding", "chunked", "a", []byte("x"))
	f.Add(int32(200), "Vary", "caf\u00e9\x7f", "a", []byte("x"))
	var kept atomic.Pointer[oncekeeper.Response]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { give(w, kept.Load(), true) }))
	defer server.Close()
	f.Fuzz(func(t *testing.T, status int32, name, value, contentType string, body []byte) {
		answer := &oncekeeper.Response{
			StatusCode: status, Body: body, ContentType: contentType,
			Metadata: []oncekeeper.MetadataEntry{{Kind: oncekeeper.MetadataHeader, Name: name, Value: []byte(value)}},
		}
		if !answerable(answer) {
			return
		}
		kept.Store(answer)
		got, err := server.Client().Transport.RoundTrip(httptest.NewRequest(http.MethodPost, server.URL, http.NoBody))
		if err != nil {
			t.Fatalf("the answer does not arrive: %v", err)
		}
		read, err := io.ReadAll(got.Body)
		got.Body.Close()
		if err != nil {
			t.Fatalf("the body does not arrive: %v", err)
		}
		want := int(status)
		if status == 0 {
			want = http.StatusOK
		}
		if got.StatusCode != want || bodyAllowed(want) && !bytes.Equal(read, body) {
			t.Fatalf("it is %d with %q, want %d with %q", got.StatusCode, read, want, body)
		}
		canonical := http.CanonicalHeaderKey(name)
		for n, values := range got.Header {
			if !slices.Contains([]string{"Content-Type", "Content-Length", "Date", replayedHeader, canonical}, n) {
				t.Fatalf("a header %q has appeared: %q", n, values)
			}
			if n == canonical && replays(name) && (len(values) != 1 || values[0] != strings.Trim(value, " \t")) {
				t.Fatalf("%q: %q is replayed as %q", name, value, values)
			}
		}
		if got.Header.Get(replayedHeader) != "true" {
			t.Fatal("the replay is not marked")
		}
	})
}
