package client

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
)

// Stats counts what a Client did beside the service, since the start.
type Stats struct {
	// Looked and Closed: how often a receipt was looked at, and closed; LookedFound
	// and ClosedFound: how often this request's effect stood there.
	Looked, LookedFound, Closed, ClosedFound int64
	// Applied: attempts whose own InTx gave the outcome.
	Applied int64
	// Anothers: receipts that were another request's.
	Anothers int64
	// ReceiptsFailed: looks and closings that proved nothing; Unclosed: attempts that
	// were settled as unknown for that.
	ReceiptsFailed, Unclosed int64
	// Reconciled: how often a reconciler was asked; CannotTell: and did not know.
	Reconciled, CannotTell int64
	// OutageReceipts and OutageOpen: functions that ran while the service gave no
	// verdict, under the receipt alone, and unguarded.
	OutageReceipts, OutageOpen int64
	// AnsweredFirst: attempts that were answered before they were settled;
	// AnsweredFirstLost: and could not be settled after it, so that the receipt tells.
	AnsweredFirst, AnsweredFirstLost int64
}

type counter = *atomic.Int64

type counters struct {
	looked, lookedFound, closed, closedFound, applied, anothers, receiptsFailed, unclosed,
	reconciled, cannotTell, outageReceipts, outageOpen, answeredFirst, answeredFirstLost atomic.Int64
}

// Stats gives what was counted so far.
func (c *Client) Stats() Stats {
	s := &c.stats
	return Stats{
		Looked: s.looked.Load(), LookedFound: s.lookedFound.Load(), Closed: s.closed.Load(), ClosedFound: s.closedFound.Load(),
		Applied: s.applied.Load(), Anothers: s.anothers.Load(), ReceiptsFailed: s.receiptsFailed.Load(), Unclosed: s.unclosed.Load(),
		Reconciled: s.reconciled.Load(), CannotTell: s.cannotTell.Load(),
		OutageReceipts: s.outageReceipts.Load(), OutageOpen: s.outageOpen.Load(),
		AnsweredFirst: s.answeredFirst.Load(), AnsweredFirstLost: s.answeredFirstLost.Load(),
	}
}

// troubleEvery bounds how often a trouble that every call meets is logged.
const troubleEvery = 10 * time.Second

// troubleLog logs at most every troubleEvery.
type troubleLog struct{ next atomic.Int64 }

func (t *troubleLog) report(ctx context.Context, log *slog.Logger, what string, attrs ...any) {
	now := int64(clock.System.Monotonic())
	next := t.next.Load()
	if now < next || !t.next.CompareAndSwap(next, now+int64(troubleEvery)) {
		return
	}
	for i, a := range attrs {
		if err, ok := a.(error); ok {
			attrs[i] = slog.Any("error", err)
		}
	}
	log.WarnContext(ctx, what, attrs...)
}
