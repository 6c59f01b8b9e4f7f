package answers

import (
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
)

// Counts counts the calls of some services' methods: those under way, and what they
// were answered. Its series are no more than methods, verdicts and rules of the
// policy give, whatever callers send. Its methods may be called from any goroutine.
type Counts struct {
	places map[string]int // of methods, by their full names
	names  []string
	flying []atomic.Int64

	following sync.Mutex
	// rules is replaced, and never changed.
	rules atomic.Pointer[map[string]table]
}

// table has the counts of one rule, by method.
type table [][verdicts]atomic.Int64

// NoRule stands for calls that no one key's rule decides.
const NoRule = "-"

// NewCounts makes counts for all methods of services, and no rule but NoRule.
func NewCounts(services ...*grpc.ServiceDesc) *Counts {
	c := &Counts{places: map[string]int{}}
	for _, service := range services {
		for _, m := range service.Methods {
			c.places["/"+service.ServiceName+"/"+m.MethodName] = len(c.names)
			c.names = append(c.names, m.MethodName)
		}
	}
	c.flying = make([]atomic.Int64, len(c.names))
	c.rules.Store(&map[string]table{})
	c.Follow(nil)
	return c
}

// Methods gives the name of every method, without its service's.
func (c *Counts) Methods() []string { return c.names }

// Place gives where a method stands, by its full name; false for one of no service
// here.
func (c *Counts) Place(fullMethod string) (place int, ok bool) {
	place, ok = c.places[fullMethod]
	return place, ok
}

// Follow counts by these rules from now on, goes on with those that were there, and
// forgets the others: a policy that is changed for years leaves no series behind.
func (c *Counts) Follow(rules []string) {
	c.following.Lock()
	defer c.following.Unlock()
	before, now := *c.rules.Load(), map[string]table{}
	for _, rule := range append(slices.Clone(rules), NoRule) {
		if now[rule] = before[rule]; now[rule] == nil {
			now[rule] = make(table, len(c.names))
		}
	}
	c.rules.Store(&now)
}

// Count counts an answer. Of a rule that is no longer followed it counts nothing.
func (c *Counts) Count(place int, rule string, v Verdict) {
	if t := (*c.rules.Load())[rule]; t != nil {
		t[place][v].Add(1)
	}
}

// Enter counts a call as under way, until Leave is called for it.
func (c *Counts) Enter(place int) { c.flying[place].Add(1) }

// Leave ends what Enter began.
func (c *Counts) Leave(place int) { c.flying[place].Add(-1) }

// Flying tells how many calls of each method are under way.
func (c *Counts) Flying(tell func(method string, n int64)) {
	for i, method := range c.names {
		tell(method, c.flying[i].Load())
	}
}

// Answers tells each count that is not zero.
func (c *Counts) Answers(tell func(method, rule string, v Verdict, n int64)) {
	for rule, t := range *c.rules.Load() {
		for i, method := range c.names {
			for v := range verdicts {
				if n := t[i][v].Load(); n > 0 {
					tell(method, rule, v, n)
				}
			}
		}
	}
}
