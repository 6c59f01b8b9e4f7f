package client

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/steps"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// shortest is the least retention there is; the service keeps the record for the
// granted lease all the same.
const shortest = time.Microsecond

// conclusion is how an attempt is settled, its receipt being closed where there is
// need.
type conclusion struct {
	steps.Ending
	ended Ended
	// notRun: see Settlement.
	notRun bool
	// retention: see Settlement.
	retention time.Duration
	// row is the receipt that closing found.
	row *receipt.Receipt
	// err is why it is not closed.
	err error
}

// conclude closes the receipt of the attempt with token where what it ended as
// needs it. It takes no longer than the receipts' time-out, whatever becomes of ctx.
func (r *receipts) conclude(ctx context.Context, token int64, done carried) conclusion {
	end := conclusion{Ending: steps.Ending{As: done.ended.As}, ended: done.ended, notRun: done.notRun}
	switch {
	case done.applied:
		end.Found = true
		return end
	case done.refused:
		end.Ending = steps.AfterClose(done.ended.As, steps.Anothers)
	case r == nil || !steps.Closes(done.ended.As, done.notRun):
		return end
	default:
		row, found, err := r.close(context.WithoutCancel(ctx), token)
		end.Ending, end.err = steps.AfterClose(done.ended.As, found), err
		end.row = row
	}
	switch {
	case end.Found:
		end.ended = Ended{As: oncekeeper.SettledComplete, Response: end.row.Response}
	case end.Refused:
		end.ended, end.retention = notRunEnding(), shortest
	case end.Unclosed:
		r.client.stats.unclosed.Add(1)
		end.ended = unclosed(done.ended)
	}
	return end
}

// unclosed gives e as it is settled where nobody knows whether an effect stands.
func unclosed(e Ended) Ended {
	if e.Status == nil {
		e.Status = &oncekeeper.Status{Code: int32(codes.Unknown), Message: "it gave a value, and its receipt could not be closed"}
	}
	return Ended{As: oncekeeper.SettledUnknown, Status: e.Status}
}

func notRunEnding() Ended {
	return Ended{As: oncekeeper.SettledRetryable, Status: &oncekeeper.Status{
		Code: int32(codes.Canceled), Message: "the attempt was not run",
	}}
}
