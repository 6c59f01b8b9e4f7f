package grpcguard

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/callkey"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// replayedHeader marks an answer that an earlier attempt gave.
const replayedHeader = "idempotency-replayed"

// neverReplayed are names of what belongs to one caller or one answer.
var neverReplayed = []string{
	"authorization", "proxy-authorization", "authentication-info", "www-authenticate", "proxy-authenticate",
	"cookie", "set-cookie", "content-type", "content-length", "content-encoding", "connection", "transfer-encoding", "te", "date",
	callkey.Metadata, replayedHeader, wire.ReasonTrailer,
}

// replays says whether a name may be one of what is replayed: one that gRPC takes
// (lower case), which is neither its own nor of one caller or answer.
func replays(name string) bool {
	if name == "" || strings.HasPrefix(name, "grpc-") || slices.Contains(neverReplayed, name) {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// carries says whether gRPC carries value under name: any bytes where the name
// ends in -bin.
func carries(name, value string) bool {
	return strings.HasSuffix(name, "-bin") || callkey.Printable(value)
}

// readNames gives the names as gRPC spells them, each once, and refuses those
// that are never replayed.
func readNames(list string, names []string) ([]string, error) {
	var read []string
	for _, name := range names {
		lower := strings.ToLower(name)
		if !replays(lower) {
			return nil, fmt.Errorf("grpcguard: Config.%s names %q, which is never replayed", list, name)
		}
		if !slices.Contains(read, lower) {
			read = append(read, lower)
		}
	}
	return read, nil
}

// replayable gives of header and trailer what is kept: what the configuration
// names and gRPC carries, in its order, as far as the limits go.
func (o *once) replayable(header, trailer metadata.MD) []oncekeeper.MetadataEntry {
	var kept []oncekeeper.MetadataEntry
	left := oncekeeper.MaxMetadataBytes
	add := func(kind oncekeeper.MetadataKind, names []string, md metadata.MD) {
		for _, name := range names {
			for _, value := range md[name] {
				if size := len(name) + len(value); carries(name, value) && size <= left && len(kept) < oncekeeper.MaxMetadataEntries {
					left -= size
					kept = append(kept, oncekeeper.MetadataEntry{Kind: kind, Name: name, Value: []byte(value)})
				}
			}
		}
	}
	add(oncekeeper.MetadataHeader, o.ReplayHeader, header)
	add(oncekeeper.MetadataTrailer, o.ReplayTrailer, trailer)
	return kept
}

// replayedMetadata is header and trailer of a replay of r, which may be nil. What
// another guard kept and gRPC would not carry is left out: one bad entry must not
// cost the answer.
func replayedMetadata(r *oncekeeper.Response) (header, trailer metadata.MD) {
	header, trailer = metadata.Pairs(replayedHeader, "true"), metadata.MD{}
	if r == nil {
		return header, trailer
	}
	for _, entry := range r.Metadata {
		name, value := strings.ToLower(entry.Name), string(entry.Value)
		if !replays(name) || !carries(name, value) {
			continue
		}
		switch entry.Kind {
		case oncekeeper.MetadataHeader:
			header.Append(name, value)
		case oncekeeper.MetadataTrailer:
			trailer.Append(name, value)
		}
	}
	return header, trailer
}
