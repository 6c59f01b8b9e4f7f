// Package fingerprint makes digests of requests that come out the same in every
// build, language and field order, so that a key used again with another request
// is told from a retry.
//
// Three schemes: [Message] and [Proto] for protobuf ("pb1"), [JSON] for JSON
// ("jcs1"), [Raw] for anything else ("raw"). [Combine] joins parts into one
// digest. Each is written down byte for byte in docs/fingerprint.md, with test
// vectors in testdata/vectors.json.
//
// It owns what is digested, and in what order. It knows nothing of keys, records
// or transports, and never digests what a marshaller happened to emit:
// protobuf's own deterministic mode, protojson and the text format all promise
// to be unstable between versions.
//
// A digest, once published, is frozen. Whatever would change one is a new scheme
// under a new name, since the service compares only digests of one scheme.
package fingerprint
