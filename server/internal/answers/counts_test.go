package answers

import (
	"fmt"
	"maps"
	"testing"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func newTestCounts() *Counts { return NewCounts(&pb.IdempotencyService_ServiceDesc) }

func told(c *Counts) map[string]int64 {
	all := map[string]int64{}
	c.Answers(func(method, rule string, v Verdict, n int64) { all[fmt.Sprint(method, " ", rule, " ", v)] = n })
	return all
}

func expect(t *testing.T, c *Counts, want map[string]int64) {
	t.Helper()
	if got := told(c); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestARuleThatIsGoneTakesItsSeriesAlong(t *testing.T) {
	c := newTestCounts()
	place, _ := c.Place(pb.IdempotencyService_Begin_FullMethodName)
	c.Follow([]string{"cards", "mail"})
	c.Count(place, "cards", Granted)
	c.Count(place, "mail", Fenced)
	c.Count(place, NoRule, Invalid)
	expect(t, c, map[string]int64{"Begin cards granted": 1, "Begin mail fenced": 1, "Begin - invalid": 1})

	c.Follow([]string{"mail", "wires"})
	c.Count(place, "cards", Granted) // under way when the rule went
	c.Count(place, "mail", Fenced)
	expect(t, c, map[string]int64{"Begin mail fenced": 2, "Begin - invalid": 1})
}

func TestNamesThatNobodyFollowsMakeNoSeries(t *testing.T) {
	c := newTestCounts()
	place, _ := c.Place(pb.IdempotencyService_Begin_FullMethodName)
	for i := range 1000 {
		c.Count(place, fmt.Sprint("rule ", i), Granted)
	}
	expect(t, c, map[string]int64{})
	if _, ok := c.Place("/oncekeeper.v1.IdempotencyService/Steal"); ok {
		t.Error("a method that the service does not have has a place")
	}
}

func TestACallIsUnderWayUntilItLeaves(t *testing.T) {
	c := newTestCounts()
	place, _ := c.Place(pb.IdempotencyService_Renew_FullMethodName)
	flying := func() (n int64) {
		c.Flying(func(method string, at int64) {
			if method == "Renew" {
				n = at
			}
		})
		return n
	}
	c.Enter(place)
	c.Enter(place)
	if got := flying(); got != 2 {
		t.Errorf("two calls entered and %d are under way", got)
	}
	c.Leave(place)
	c.Leave(place)
	if got := flying(); got != 0 {
		t.Errorf("two calls left and %d are under way", got)
	}
}
