package bench

import (
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// faults counts the calls that brought no verdict, each try by itself: what a client
// tries again, and so hides, counts too.
type faults struct {
	// overloaded were refused at once, by a bound; others were not answered in time, or
	// not at all.
	overloaded, others atomic.Int64
}

// count is of calls that, where the service can take them, all succeed.
func (f *faults) count(err error) {
	switch status.Code(err) {
	case codes.OK:
	case codes.ResourceExhausted:
		f.overloaded.Add(1)
	default:
		f.others.Add(1)
	}
}

// faultCount is what faults held at a time, or what came between two.
type faultCount struct{ overloaded, others int64 }

func (f *faults) now() faultCount {
	return faultCount{overloaded: f.overloaded.Load(), others: f.others.Load()}
}

func (c faultCount) since(before faultCount) faultCount {
	return faultCount{overloaded: c.overloaded - before.overloaded, others: c.others - before.others}
}

func (c faultCount) plus(d faultCount) faultCount {
	return faultCount{overloaded: c.overloaded + d.overloaded, others: c.others + d.others}
}
