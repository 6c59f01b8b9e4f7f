// Package bench measures what a guarded call costs, as ratios of loads that take
// turns: within one run each load has its short slices between those of the others,
// so that what else the machine does meets all of them alike.
//
// It owns the loads and what is measured of them. It starts no server and knows no
// flag: those are the command's.
package bench
