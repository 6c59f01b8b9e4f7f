// Command plots draws what `oncekeeper growth --json` measured: each FILE.json it is
// given becomes FILE.svg beside it, always the same for the same file.
//
// It knows how a report looks and how to draw, and measures nothing.
package main
