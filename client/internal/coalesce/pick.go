package coalesce

import "github.com/oncekeeper/oncekeeper"

// pick gives what of queue goes together, and what is left, each in the order of
// queue. The first always goes; those that differ from it in With, or have the key
// of one that goes, stay for a later call. It uses the memory of queue.
func pick[Q, A any](queue []*waiting[Q, A]) (taken, left []*waiting[Q, A]) {
	if len(queue) == 0 {
		return nil, queue
	}
	keys := make(map[oncekeeper.Key]struct{}, min(len(queue), MaxItems))
	taken = make([]*waiting[Q, A], 0, min(len(queue), MaxItems))
	with := queue[0].With
	left = queue[:0]
	bytes := 0
	for i, w := range queue {
		if len(taken) == MaxItems || (i > 0 && bytes+w.Bytes > MaxBytes) {
			left = append(left, queue[i:]...)
			break
		}
		if _, twice := keys[w.Key]; twice || w.With != with {
			left = append(left, w)
			continue
		}
		keys[w.Key] = struct{}{}
		bytes += w.Bytes
		taken = append(taken, w)
	}
	clear(queue[len(left):])
	return taken, left
}
