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

// readNames gives the names as gRPC spells them, each once, and refuses those
// that are never replayed.
func readNames(list string, names []string) ([]string, error) {
	var read []string
	for _, name := range names {
		lower := strings.ToLower(name)
		if lower == "" || strings.HasPrefix(lower, ":") || strings.HasPrefix(lower, "grpc-") || slices.Contains(neverReplayed, lower) {
			return nil, fmt.Errorf("grpcguard: Config.%s names %q, which is never replayed", list, name)
		}
		if !slices.Contains(read, lower) {
			read = append(read, lower)
		}
	}
	return read, nil
}

// replayable gives of header and trailer what is kept: what the configuration
// names, in its order, as far as the limits go.
func (o *once) replayable(header, trailer metadata.MD) []oncekeeper.MetadataEntry {
	var kept []oncekeeper.MetadataEntry
	left := oncekeeper.MaxMetadataBytes
	add := func(kind oncekeeper.MetadataKind, names []string, md metadata.MD) {
		for _, name := range names {
			for _, value := range md[name] {
				if size := len(name) + len(value); size <= left && len(kept) < oncekeeper.MaxMetadataEntries {
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

// replayedMetadata is header and trailer of a replay of r, which may be nil.
func replayedMetadata(r *oncekeeper.Response) (header, trailer metadata.MD) {
	header, trailer = metadata.Pairs(replayedHeader, "true"), metadata.MD{}
	if r == nil {
		return header, trailer
	}
	for _, entry := range r.Metadata {
		switch entry.Kind {
		case oncekeeper.MetadataHeader:
			header.Append(entry.Name, string(entry.Value))
		case oncekeeper.MetadataTrailer:
			trailer.Append(entry.Name, string(entry.Value))
		}
	}
	return header, trailer
}
