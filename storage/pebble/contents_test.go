package pebble

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/oncekeeper/oncekeeper/storage/internal/codec"
)

func TestContentsAreTheRecordsAsTheyAreEncodedWithTheirKeys(t *testing.T) {
	s := mustOpen(t, Config{})
	var want Contents
	for i := range 3 {
		id := fmt.Sprint("order-", i)
		granted := s.Apply(t.Context(), testBegin(id, ""))[0]
		done := s.Apply(t.Context(), testComplete(id, granted.Record.Token, "paid"))[0]
		value, err := codec.Append(nil, done.Record)
		if err != nil || done.Refusal() != nil {
			t.Fatal(err, done.Refusal())
		}
		want.Records++
		want.Bytes += int64(len(recordKey(testKey(id))) + len(value))
	}
	if got, err := s.Contents(t.Context()); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Contents(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("whoever is gone gets %v", err)
	}
}
