package oncetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

var key = oncekeeper.Key{Tenant: "acme", Operation: "charges.create", ID: "order-17"}

func TestACrashedAttemptIsTakenOverWhenItsLeaseEnds(t *testing.T) {
	keeper := oncetest.Start(t)
	c := keeper.Client()
	// An attempt that is begun and never heard of again.
	crashed, err := c.Begin(t.Context(), client.BeginRequest{Key: key, Lease: 30 * time.Second})
	if err != nil || crashed.Grant == nil {
		t.Fatalf("Begin: %v, %v", crashed, err)
	}
	charge := func(_ context.Context, a *client.Attempt) (string, error) {
		if !a.Takeover() {
			return "", errors.New("an earlier attempt may have charged, and this one is not told")
		}
		return "charged", nil
	}
	if _, err := client.Do(t.Context(), c, key, charge, client.WithWait(0)); !errors.Is(err, oncekeeper.ErrInProgress) {
		t.Fatalf("while its lease runs, Do gives %v; want ErrInProgress", err)
	}
	keeper.Clock.Advance(30 * time.Second)
	if got, err := client.Do(t.Context(), c, key, charge); err != nil || got != "charged" {
		t.Fatalf("after its lease, Do gives %q, %v", got, err)
	}
	if rec := keeper.Record(key); rec == nil || rec.State != oncekeeper.StateCompleted || rec.Number != 2 {
		t.Errorf("the record is %+v; want completed by attempt 2", rec)
	}
}

func TestARecordIsGoneWhenItsRetentionHasPassed(t *testing.T) {
	keeper := oncetest.Start(t)
	runs := 0
	charge := func(context.Context, *client.Attempt) (int, error) { runs++; return runs, nil }
	for range 3 {
		if got, err := client.Do(t.Context(), keeper.Client(), key, charge, client.WithRetention(time.Hour)); err != nil || got != 1 {
			t.Fatalf("within its retention Do gives %d, %v; want 1", got, err)
		}
	}
	keeper.Clock.Advance(time.Hour)
	if rec := keeper.Record(key); rec != nil {
		t.Errorf("after its retention the record is %+v", rec)
	}
	if got, err := client.Do(t.Context(), keeper.Client(), key, charge); err != nil || got != 2 {
		t.Errorf("after its retention Do gives %d, %v; want 2, a new run", got, err)
	}
}
