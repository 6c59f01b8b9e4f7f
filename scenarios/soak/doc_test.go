// Package soak runs a server for long under a small load, with everything that a
// day brings, and holds its memory, its goroutines and its open files to be flat.
//
// The tests run it for seconds, on each store, to show that it runs and counts;
// `make soak SOAK=30m` runs it for as long as is asked, and judges.
package soak
