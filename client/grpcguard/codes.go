package grpcguard

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

// handlerAnswers is what a handler's code is settled as where nothing else is
// said. Every other is unknown, UNAVAILABLE and UNIMPLEMENTED too: a handler may
// have had an effect before it called what failed, or has not that method.
var handlerAnswers = map[codes.Code]oncekeeper.Settlement{
	codes.InvalidArgument:    oncekeeper.SettledFinal,
	codes.NotFound:           oncekeeper.SettledFinal,
	codes.AlreadyExists:      oncekeeper.SettledFinal,
	codes.FailedPrecondition: oncekeeper.SettledFinal,
	codes.OutOfRange:         oncekeeper.SettledFinal,
	codes.DataLoss:           oncekeeper.SettledFinal,
}

// echoes are the codes that an attempt may get from what the one before it did.
var echoes = map[codes.Code]bool{
	codes.NotFound:           true,
	codes.AlreadyExists:      true,
	codes.FailedPrecondition: true,
}

// table says what a failure is settled as.
type table struct {
	any, takeover map[codes.Code]oncekeeper.Settlement
}

func newTable(operation string, answers map[codes.Code]oncekeeper.Settlement, changes Method) (table, error) {
	for _, named := range []map[codes.Code]oncekeeper.Settlement{changes.Codes, changes.TakeoverCodes} {
		for _, code := range slices.Sorted(maps.Keys(named)) {
			switch as := named[code]; {
			case code == codes.OK:
				return table{}, fmt.Errorf("%s: OK is always kept: it can be settled as nothing else", operation)
			case as != oncekeeper.SettledFinal && as != oncekeeper.SettledRetryable && as != oncekeeper.SettledUnknown:
				return table{}, fmt.Errorf("%s: %v is settled as final, retryable or unknown, and not as Settlement(%d)", operation, code, as)
			}
		}
	}
	t := table{any: maps.Clone(answers), takeover: changes.TakeoverCodes}
	if t.any == nil {
		t.any = map[codes.Code]oncekeeper.Settlement{}
	}
	maps.Copy(t.any, changes.Codes)
	return t, nil
}

// settlement gives what err, whose code is code, is settled as: by its own mark,
// else by its code, else by that of its transaction. An error of Oncekeeper passes,
// and is never kept as an answer. receipts: what an earlier attempt did would have
// been found by its receipt.
func (t table) settlement(err error, code codes.Code, takeover, receipts bool) oncekeeper.Settlement {
	as := oncekeeper.SettlementOf(err)
	if as == oncekeeper.SettledUnknown {
		var said bool
		if as, said = t.ofCode(code, takeover, receipts); !said && oncekeeper.IsRolledBack(err) {
			as = oncekeeper.SettledRetryable
		}
	}
	if as == oncekeeper.SettledFinal && client.OfService(err) {
		if oncekeeper.IsRolledBack(err) {
			return oncekeeper.SettledRetryable
		}
		return oncekeeper.SettledUnknown
	}
	return as
}

// ofCode gives what code is settled as; said is false where nothing is said of it.
func (t table) ofCode(code codes.Code, takeover, receipts bool) (as oncekeeper.Settlement, said bool) {
	if takeover {
		if as, ok := t.takeover[code]; ok {
			return as, true
		}
		if echoes[code] && !receipts {
			return oncekeeper.SettledUnknown, true
		}
	}
	if as, ok := t.any[code]; ok {
		return as, true
	}
	return oncekeeper.SettledUnknown, false
}
