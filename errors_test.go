package oncekeeper_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/oncekeeper/oncekeeper"
)

func TestAnErrorIsSettledAsItsMarkSaysAndOtherwiseUnknown(t *testing.T) {
	plain := errors.New("plain")
	notApplied, final := oncekeeper.NotApplied(plain), oncekeeper.Final(plain)
	for name, c := range map[string]struct {
		err  error
		want oncekeeper.Settlement
	}{
		"plain":                          {plain, oncekeeper.SettledUnknown},
		"not applied":                    {notApplied, oncekeeper.SettledRetryable},
		"final":                          {final, oncekeeper.SettledFinal},
		"wrapped":                        {fmt.Errorf("doing: %w", notApplied), oncekeeper.SettledRetryable},
		"the outermost mark":             {oncekeeper.Final(fmt.Errorf("doing: %w", notApplied)), oncekeeper.SettledFinal},
		"an attempt within":              {oncekeeper.Past(notApplied), oncekeeper.SettledUnknown},
		"an attempt within, wrapped":     {fmt.Errorf("crediting: %w", oncekeeper.Past(final)), oncekeeper.SettledUnknown},
		"marked again around it":         {oncekeeper.NotApplied(oncekeeper.Past(final)), oncekeeper.SettledRetryable},
		"joined with one unmarked":       {errors.Join(plain, notApplied), oncekeeper.SettledUnknown},
		"joined, the unmarked last":      {errors.Join(final, plain), oncekeeper.SettledUnknown},
		"joined, two marks":              {errors.Join(final, notApplied), oncekeeper.SettledUnknown},
		"joined, one mark":               {errors.Join(notApplied, notApplied), oncekeeper.SettledRetryable},
		"two wrapped in one":             {fmt.Errorf("%w; %w", plain, notApplied), oncekeeper.SettledUnknown},
		"marked around what was joined":  {oncekeeper.NotApplied(errors.Join(plain, final)), oncekeeper.SettledRetryable},
		"a sentinel of the service":      {oncekeeper.ErrFenced, oncekeeper.SettledUnknown},
		"joined with the past":           {errors.Join(notApplied, oncekeeper.Past(notApplied)), oncekeeper.SettledUnknown},
		"wrapped over two levels joined": {fmt.Errorf("a: %w", errors.Join(fmt.Errorf("b: %w", final))), oncekeeper.SettledFinal},
	} {
		if got := oncekeeper.SettlementOf(c.err); got != c.want {
			t.Errorf("%s: settled as %d, want %d", name, got, c.want)
		}
		if c.err != oncekeeper.ErrFenced && !errors.Is(c.err, plain) {
			t.Errorf("%s: the error is lost", name)
		}
	}
	if oncekeeper.Final(nil) != nil || oncekeeper.NotApplied(nil) != nil || oncekeeper.Past(nil) != nil {
		t.Error("a mark made an error of nil")
	}
}

func TestEverySentinelIsFoundByItsReason(t *testing.T) {
	for _, err := range []error{oncekeeper.ErrFenced, oncekeeper.ErrKeyNotFound, oncekeeper.ErrAskAlone} {
		s, ok := oncekeeper.SentinelOf(fmt.Errorf("doing: %w", err))
		if !ok {
			t.Fatalf("%v is no sentinel", err)
		}
		if back, ok := oncekeeper.SentinelFor(s.Reason()); !ok || !errors.Is(back, err) {
			t.Errorf("%s does not lead back to %v", s.Reason(), err)
		}
	}
}
