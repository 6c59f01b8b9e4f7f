// Package oncekeeper is the vocabulary of a service that lets an operation
// happen once, however often it is asked for: keys, records, outcomes, grants,
// limits, and the sentinel errors that cross the wire.
//
// It owns words and no behaviour, and imports the standard library alone, so
// that every other room can speak of the same things. What may happen to a
// record is decided in lifecycle; callers start at client.
package oncekeeper
