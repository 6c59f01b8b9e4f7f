// Package sweeping deletes what expired by the sweepers that servers run, several
// at once and under load, on each store: at a size for every day in the tests, and
// at two million records in the benchmark, which `make sweep-proof` runs.
package sweeping
