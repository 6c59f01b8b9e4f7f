package httpguard

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/headerkey"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// replayedHeader marks an answer that an earlier attempt gave.
const replayedHeader = "Idempotency-Replayed"

// reasonHeader says why a guard refuses, beside the problem in the body: so a
// refusal can be told without reading it. Only a guard sets it, and a guard takes
// it off the answers of its own handler, so it is of the guard that was called.
var reasonHeader = http.CanonicalHeaderKey(wire.ReasonTrailer)

// alwaysReplayed say what the body is and where what was made is.
var alwaysReplayed = []string{
	"Content-Encoding", "Content-Language", "Content-Disposition", "Content-Location",
	"Location", "Etag", "Last-Modified", "Link", "Allow", "Cache-Control", "Expires", "Vary",
}

// neverReplayed are names of what belongs to one caller, one connection or one
// answer.
var neverReplayed = []string{
	"authorization", "proxy-authorization", "authentication-info", "proxy-authentication-info", "www-authenticate", "proxy-authenticate",
	"cookie", "cookie2", "set-cookie", "set-cookie2", "clear-site-data",
	"connection", "proxy-connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
	"content-type", "content-length", "content-range", "date", "age", "retry-after", "alt-svc",
	strings.ToLower(headerkey.Name), strings.ToLower(replayedHeader), wire.ReasonTrailer,
}

// replays says whether a header of this name may be one of what is replayed.
// What CORS allowed one origin says nothing of another.
func replays(name string) bool {
	name = strings.ToLower(name)
	return !slices.Contains(neverReplayed, name) && !strings.HasPrefix(name, "access-control-") && isToken(name)
}

// isToken: RFC 9110's token, which names a header.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// isValue: what a header's value may hold. With anything else whoever reads the
// answer refuses the whole of it.
func isValue(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// readNames gives the names as net/http spells them, each once, and refuses those
// that are never replayed.
func readNames(names []string) ([]string, error) {
	var read []string
	for _, name := range names {
		if !replays(name) {
			return nil, fmt.Errorf("the header %q is never replayed: it is one caller's, one connection's or one answer's", name)
		}
		if name = http.CanonicalHeaderKey(name); !slices.Contains(read, name) {
			read = append(read, name)
		}
	}
	return read, nil
}

// replayable gives of header what is kept: names in their order, as far as the
// limits go.
func replayable(header http.Header, names []string) []oncekeeper.MetadataEntry {
	var kept []oncekeeper.MetadataEntry
	left := oncekeeper.MaxMetadataBytes
	for _, name := range names {
		for _, value := range header[name] {
			if size := len(name) + len(value); size <= left && len(kept) < oncekeeper.MaxMetadataEntries {
				left -= size
				kept = append(kept, oncekeeper.MetadataEntry{Kind: oncekeeper.MetadataHeader, Name: name, Value: []byte(value)})
			}
		}
	}
	return kept
}

// setReplayed puts the header of a kept answer into to. What another guard kept
// and may not be replayed here, or cannot be in a header, is left out: one bad
// entry must not cost the answer.
func setReplayed(to http.Header, kept []oncekeeper.MetadataEntry) {
	seen := map[string]bool{}
	for _, entry := range kept {
		name, value := http.CanonicalHeaderKey(entry.Name), string(entry.Value)
		if entry.Kind != oncekeeper.MetadataHeader || !replays(name) || !isValue(value) {
			continue
		}
		if !seen[name] {
			to.Del(name) // what was set outside the guard was not the handler's
			seen[name] = true
		}
		to.Add(name, value)
	}
}
