package coalesce

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncekeeper/oncekeeper"
)

func TestWhatGoesTogetherIsInBoundsAndWhatIsLeftKeepsItsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queue := make([]*waiting[int, int], rapid.IntRange(0, 3*MaxItems).Draw(t, "queued"))
		keys := rapid.SampledFrom([]int{1, 10, 10_000}).Draw(t, "keys")
		most := rapid.SampledFrom([]int{1, 10_000, MaxItemBytes}).Draw(t, "most bytes")
		for i := range queue {
			queue[i] = &waiting[int, int]{Item: Item[int]{
				Ask:   i,
				Key:   oncekeeper.Key{ID: fmt.Sprint(rapid.IntRange(1, keys).Draw(t, "key"))},
				With:  rapid.SampledFrom([]string{"", "", "", "a"}).Draw(t, "with"),
				Bytes: rapid.IntRange(1, most).Draw(t, "bytes"),
			}}
		}
		before := slices.Clone(queue)
		taken, left := pick(queue)

		if len(before) > 0 && (len(taken) == 0 || taken[0] != before[0]) {
			t.Fatalf("of %d the first does not go", len(before))
		}
		seen, bytes := map[oncekeeper.Key]bool{}, 0
		for _, w := range taken {
			if seen[w.Key] {
				t.Errorf("key %v goes twice", w.Key)
			}
			if w.With != before[0].With {
				t.Errorf("%q goes with %q", w.With, before[0].With)
			}
			seen[w.Key] = true
			bytes += w.Bytes
		}
		if len(taken) > MaxItems || bytes > MaxBytes {
			t.Errorf("%d items of %d bytes go together", len(taken), bytes)
		}
		for name, part := range map[string][]*waiting[int, int]{"goes": taken, "is left": left} {
			if !slices.IsSortedFunc(part, func(a, b *waiting[int, int]) int { return a.Ask - b.Ask }) {
				t.Errorf("what %s is out of order", name)
			}
		}
		all := slices.Concat(taken, left)
		slices.SortFunc(all, func(a, b *waiting[int, int]) int { return a.Ask - b.Ask })
		if !slices.Equal(all, before) {
			t.Errorf("of %d items %d go and %d are left, and they are not the same", len(before), len(taken), len(left))
		}
		// Nobody stays behind who could have gone.
		if len(taken) < MaxItems && bytes+most <= MaxBytes {
			for _, w := range left {
				if !seen[w.Key] && w.With == before[0].With {
					t.Errorf("item %d is left, and there was room", w.Ask)
				}
			}
		}
	})
}
