//go:build race

package server_test

// underRace: everything takes ten times as long.
const underRace = true
