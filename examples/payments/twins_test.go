package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestTheTwoMessagesOfADebitWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		twins := newTwins()
		for round := range 3 {
			first := make(chan error, 1)
			go func() { first <- twins.meet(t.Context(), "a") }()
			synctest.Wait()
			if len(first) != 0 {
				t.Fatalf("round %d: the first message went on alone", round)
			}
			other, cancel := context.WithCancel(t.Context())
			cancel()
			if err := twins.meet(other, "b"); !errors.Is(err, context.Canceled) {
				t.Errorf("round %d: a message of another debit, which has left since, gives %v", round, err)
			}
			if err := twins.meet(t.Context(), "a"); err != nil {
				t.Errorf("the second message: %v", err)
			}
			if err := <-first; err != nil {
				t.Errorf("the first message: %v", err)
			}
		}
	})
}

func TestNobodyWaitsForAMessageThatCannotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		twins := newTwins()
		first := make(chan error, 1)
		go func() { first <- twins.meet(t.Context(), "a") }()
		synctest.Wait()
		twins.part("a")
		if err := <-first; err != nil {
			t.Errorf("the message that waited: %v", err)
		}
		if err := twins.meet(t.Context(), "a"); err != nil {
			t.Errorf("one that came later: %v", err)
		}
	})
}

func TestAMessageWhoseTwinIsLostSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := newTwins().meet(t.Context(), "a"); !errors.Is(err, errAlone) {
			t.Errorf("it gives %v, want %v", err, errAlone)
		}
	})
}
