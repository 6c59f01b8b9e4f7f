// Package wire is the vocabulary on the wire: the root package's words as the
// contract's messages, both ways, and errors as gRPC statuses, both ways.
//
// It decides nothing: it validates no limit, knows no default, and judges no
// record. Bytes are shared between a message and the word it becomes, so neither
// is changed in place.
package wire
