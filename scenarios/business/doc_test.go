// Package business holds Oncekeeper against a business that has a database of its
// own: money is moved in it, messages come twice, processes die. Each test is one
// thing that goes wrong, and shows two runs of it: one guarded, where the effect is
// there once, and a naive one, where it is not, so that the test can fail.
//
// Every scenario runs in four worlds: Oncekeeper as the built binary in a process of
// its own, or inside the business's process; and the business on SQLite, or on
// Postgres.
package business
