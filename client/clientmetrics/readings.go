package clientmetrics

import (
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/inbox"
	"github.com/oncekeeper/oncekeeper/metrics"
)

// value is one of a metric's series, by the value of its one label.
type value[S any] struct {
	label string
	of    func(S) int64
}

func labelsOf[S any](values []value[S]) (all []string) {
	for _, v := range values {
		all = append(all, v.label)
	}
	return all
}

// told describes a counter with one series for each of values, and reads it. Labels
// of which describe the source, and come first.
func told[S any](name, help, worry, label string, values []value[S], which ...metrics.Label) metrics.Reading[S] {
	return metrics.Reading[S]{
		Metric: metrics.Metric{
			Name: name, Type: metrics.Counter, Help: help, Worry: worry,
			Labels: append(which, metrics.Label{Name: label, Values: labelsOf(values)}),
		},
		Read: func(s S, out metrics.Out) {
			for _, v := range values {
				out.Value(float64(v.of(s)), v.label)
			}
		},
	}
}

// number describes a counter of one series, and reads it.
func number[S any](name, help, worry string, of func(S) int64, which ...metrics.Label) metrics.Reading[S] {
	return metrics.Reading[S]{
		Metric: metrics.Metric{Name: name, Type: metrics.Counter, Help: help, Worry: worry, Labels: which},
		Read:   metrics.Number(func(s S) float64 { return float64(of(s)) }),
	}
}

var ofClient = []metrics.Reading[client.Stats]{
	told("oncekeeper_client_receipts_total", "Receipts that were looked at, and closed so that no attempt writes one any more",
		"", "act", []value[client.Stats]{
			{"look", func(s client.Stats) int64 { return s.Looked }},
			{"close", func(s client.Stats) int64 { return s.Closed }},
		}),
	told("oncekeeper_client_receipts_found_total", "Those of them where this request's effect stood: it is not made twice",
		"", "act", []value[client.Stats]{
			{"look", func(s client.Stats) int64 { return s.LookedFound }},
			{"close", func(s client.Stats) int64 { return s.ClosedFound }},
		}),
	number("oncekeeper_client_receipts_failed_total", "Looks and closings that proved nothing", "It grows: the database with the receipts is out of reach",
		func(s client.Stats) int64 { return s.ReceiptsFailed }),
	number("oncekeeper_client_receipts_unclosed_total", "Attempts that were settled as unknown for that", "It grows: keys are taken over or held",
		func(s client.Stats) int64 { return s.Unclosed }),
	number("oncekeeper_client_receipts_of_others_total", "Receipts under the request's key that were another request's", "It grows at all: a key was used for two requests",
		func(s client.Stats) int64 { return s.Anothers }),
	number("oncekeeper_client_applied_total", "Attempts whose own transaction, by InTx, gave the outcome", "", func(s client.Stats) int64 { return s.Applied }),
	number("oncekeeper_client_answered_first_total", "Attempts that were answered before they were settled, their receipt being committed", "",
		func(s client.Stats) int64 { return s.AnsweredFirst }),
	number("oncekeeper_client_answered_first_lost_total", "Those of them that could not be settled after it: their receipts tell the next callers", "It grows: the service is out of reach, or attempts outlive their leases",
		func(s client.Stats) int64 { return s.AnsweredFirstLost }),
	number("oncekeeper_client_reconciled_total", "Times that a reconciler was asked", "", func(s client.Stats) int64 { return s.Reconciled }),
	number("oncekeeper_client_cannot_tell_total", "Times that it did not know", "It grows: keys wait for somebody", func(s client.Stats) int64 { return s.CannotTell }),
	told("oncekeeper_client_outage_runs_total", "Functions that ran while the service gave no verdict: under their receipt alone, or unguarded",
		"It grows: the service is out of reach. `nothing`: effects may happen twice", "under", []value[client.Stats]{
			{"receipt", func(s client.Stats) int64 { return s.OutageReceipts }},
			{"nothing", func(s client.Stats) int64 { return s.OutageOpen }},
		}),
}

var subscriberLabel = metrics.Label{Name: "subscriber", Means: "the name that the program gave the inbox"}

var ofInbox = []metrics.Reading[inbox.Stats]{
	told("oncekeeper_inbox_tries_total",
		"Tries to handle a message: `handled` and `duplicate` are done with; `in_progress`, `failed` and `unavailable` come later; the others are dead letters",
		"`unavailable`: the service, or the receipts, are out of reach. `unresolved`: keys wait for somebody. `exhausted`, `final`, `refused`: look at the dead letters",
		"result", []value[inbox.Stats]{
			{"handled", func(s inbox.Stats) int64 { return s.Handled }},
			{"duplicate", func(s inbox.Stats) int64 { return s.Duplicate }},
			{"in_progress", func(s inbox.Stats) int64 { return s.InProgress }},
			{"failed", func(s inbox.Stats) int64 { return s.Failed }},
			{"unavailable", func(s inbox.Stats) int64 { return s.Unavailable }},
			{"exhausted", func(s inbox.Stats) int64 { return s.Exhausted }},
			{"unresolved", func(s inbox.Stats) int64 { return s.Unresolved }},
			{"final", func(s inbox.Stats) int64 { return s.Final }},
			{"refused", func(s inbox.Stats) int64 { return s.Refused }},
		}, subscriberLabel),
}
