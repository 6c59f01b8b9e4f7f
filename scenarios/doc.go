// Package scenarios holds black-box tests: the built binary, real processes, real
// disks, and faults from outside. Each test is named for what it shows.
package scenarios
