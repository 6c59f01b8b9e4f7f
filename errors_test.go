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
		"rolled back":                    {oncekeeper.RolledBack(plain), oncekeeper.SettledUnknown},
		"a mark in what was rolled back": {oncekeeper.RolledBack(fmt.Errorf("doing: %w", final)), oncekeeper.SettledFinal},
	} {
		if got := oncekeeper.SettlementOf(c.err); got != c.want {
			t.Errorf("%s: settled as %d, want %d", name, got, c.want)
		}
		if c.err != oncekeeper.ErrFenced && !errors.Is(c.err, plain) {
			t.Errorf("%s: the error is lost", name)
		}
	}
	if oncekeeper.Final(nil) != nil || oncekeeper.NotApplied(nil) != nil || oncekeeper.Past(nil) != nil || oncekeeper.RolledBack(nil) != nil {
		t.Error("a mark made an error of nil")
	}
}

func TestOnlyAnErrorWhoseEveryPartIsMarkedIsRolledBack(t *testing.T) {
	plain := errors.New("plain")
	back := oncekeeper.RolledBack(plain)
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"none":                     {nil, false},
		"plain":                    {plain, false},
		"rolled back":              {back, true},
		"wrapped":                  {fmt.Errorf("charging: %w", back), true},
		"of a final error":         {oncekeeper.RolledBack(oncekeeper.Final(plain)), true},
		"under another mark":       {oncekeeper.NotApplied(back), true},
		"not applied":              {oncekeeper.NotApplied(plain), false},
		"an attempt within":        {oncekeeper.Past(back), false},
		"marked again around it":   {oncekeeper.RolledBack(oncekeeper.Past(back)), true},
		"joined with one unmarked": {errors.Join(back, plain), false},
		"joined, the marked last":  {errors.Join(plain, back), false},
		"joined, two of them":      {errors.Join(back, fmt.Errorf("b: %w", back)), true},
		"joined with the past":     {errors.Join(back, oncekeeper.Past(back)), false},
		"two wrapped in one":       {fmt.Errorf("%w; %w", oncekeeper.ErrFenced, back), false},
		"around what was joined":   {oncekeeper.RolledBack(errors.Join(plain, plain)), true},
	} {
		if got := oncekeeper.IsRolledBack(c.err); got != c.want {
			t.Errorf("%s: rolled back is %v, want %v", name, got, c.want)
		}
	}
	if !errors.Is(back, plain) || back.Error() != plain.Error() {
		t.Errorf("%v: the error is lost", back)
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
