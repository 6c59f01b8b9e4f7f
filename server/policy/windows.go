package policy

import "time"

// Windows say for how long the same key may come again, and by whose hand. A
// record must be kept as long as the longest: what comes after it is a new
// operation, and its effect a second one. Zero: it does not come so.
type Windows struct {
	// ClientRetry: a caller, or its user, tries again.
	ClientRetry time.Duration
	// QueueRedrive: a broker gives the message again, or somebody moves it back from
	// the dead letters.
	QueueRedrive time.Duration
	// WebhookReplay: the sender of a webhook sends it again.
	WebhookReplay time.Duration
	// OperatorReplay: somebody replays a day's work by hand.
	OperatorReplay time.Duration
	// Settlement: the other side's books are compared, and what is missing is sent
	// again.
	Settlement time.Duration
}

// longest gives the longest window, and its name.
func (w Windows) longest() (name string, d time.Duration) {
	for i := range windows {
		if each := *windows[i].of(&w); each > d {
			name, d = windows[i].name, each
		}
	}
	return name, d
}

type window struct {
	name string
	of   func(*Windows) *time.Duration
}

var windows = [...]window{
	{"client_retry", func(w *Windows) *time.Duration { return &w.ClientRetry }},
	{"queue_redrive", func(w *Windows) *time.Duration { return &w.QueueRedrive }},
	{"webhook_replay", func(w *Windows) *time.Duration { return &w.WebhookReplay }},
	{"operator_replay", func(w *Windows) *time.Duration { return &w.OperatorReplay }},
	{"settlement", func(w *Windows) *time.Duration { return &w.Settlement }},
}
