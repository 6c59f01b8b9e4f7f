package lifecycle_test

import (
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

var (
	standard = oncekeeper.Grant{Lease: time.Minute, Retention: time.Hour, UnsettledRetention: 24 * time.Hour}
	ask      = lifecycle.Begin{Key: key, Fingerprint: []byte("digest"), FingerprintScheme: "raw", Grant: standard}
	noFunds  = &oncekeeper.Status{Code: 9, Message: "no funds"}
)

// must judges cmd, expects the verdict, and gives the record.
func must(
	t *testing.T, want lifecycle.Verdict, rec *oncekeeper.KeyRecord, cmd lifecycle.Command, now oncekeeper.Instant,
) *oncekeeper.KeyRecord {
	t.Helper()
	next, got := lifecycle.Apply(rec, cmd, now)
	if got != want {
		t.Fatalf("%T at %d: got %v, want %v, on %+v", cmd, now, got, want, rec)
	}
	return next
}

func as(settlement oncekeeper.Settlement, token int64) lifecycle.Settle {
	return lifecycle.Settle{Key: key, Token: token, As: settlement, Status: noFunds}
}

func asked(change func(*lifecycle.Begin)) lifecycle.Begin {
	c := ask
	change(&c)
	return c
}

func TestAnUnknownOutcomeStaysLapsedWhenTheClockStepsBack(t *testing.T) {
	rec := must(t, lifecycle.Granted, nil, ask, start)
	rec = must(t, lifecycle.Settled, rec, as(oncekeeper.SettledUnknown, rec.Token), start.Add(time.Second))
	earlier := start.Add(-time.Hour)
	if state := lifecycle.StateAt(rec, earlier); state != oncekeeper.StateAbandoned {
		t.Errorf("state: got %v, want ABANDONED", state)
	}
	must(t, lifecycle.AlreadySettled, rec, lifecycle.Renew{Key: key, Token: rec.Token}, earlier)
	next := must(t, lifecycle.Granted, rec, ask, earlier)
	if next.Token <= rec.Token || !next.Takeover {
		t.Errorf("granted %+v, want a takeover with a token greater than %d", next, rec.Token)
	}
}

func TestAGivenUpKeyStaysHeldWhenTheClockStepsBack(t *testing.T) {
	once := asked(func(c *lifecycle.Begin) { c.Grant.MaxAttempts = 2 })
	first := must(t, lifecycle.Granted, nil, once, start)
	lapsed := start.Add(2 * time.Minute)
	second := must(t, lifecycle.Granted, first, once, lapsed)
	released := must(t, lifecycle.Settled, second, as(oncekeeper.SettledRetryable, second.Token), lapsed)
	held := must(t, lifecycle.Unresolved, released, once, lapsed)
	must(t, lifecycle.Unresolved, held, once, start.Add(-time.Hour))
}

func TestTokensGrowWhenTheClockStepsBack(t *testing.T) {
	rec := must(t, lifecycle.Granted, nil, ask, start)
	for i := range 5 {
		now := start.Add(-time.Duration(i+1) * time.Hour)
		rec = must(t, lifecycle.Settled, rec, as(oncekeeper.SettledRetryable, rec.Token), now)
		next := must(t, lifecycle.Granted, rec, ask, now)
		if next.Token != rec.Token+1 {
			t.Fatalf("token after %d: got %d, want one more", rec.Token, next.Token)
		}
		rec = next
	}
}

func TestAnExpiredRecordThatIsStillStoredFencesTheNextLife(t *testing.T) {
	ahead := &oncekeeper.KeyRecord{
		Key: key, State: oncekeeper.StoredCompleted, Token: int64(start) + 500, Revision: 7, Expires: start,
	}
	rec := must(t, lifecycle.Granted, ahead, ask, start)
	if rec.Token != ahead.Token+1 || rec.Revision != 1 || rec.Attempt != 1 {
		t.Errorf("got token %d, revision %d, attempt %d; want %d, 1, 1", rec.Token, rec.Revision, rec.Attempt, ahead.Token+1)
	}
}

func TestATokenIsAtLeastOneOnAClockBeforeItsEpoch(t *testing.T) {
	for _, now := range []oncekeeper.Instant{-start, 0} {
		if rec := must(t, lifecycle.Granted, nil, ask, now); rec.Token != 1 {
			t.Errorf("token at %d: got %d, want 1", now, rec.Token)
		}
	}
}

func TestAnAttemptRetriedAtTheVeryEndOfItsLeaseIsLapsed(t *testing.T) {
	called := asked(func(c *lifecycle.Begin) { c.CallID = "call" })
	rec := must(t, lifecycle.Granted, nil, called, start)
	if same := must(t, lifecycle.Granted, rec, called, rec.LeaseEnd-1); same != rec {
		t.Errorf("one microsecond before its end the lease was started anew: %+v", same)
	}
	if anew := must(t, lifecycle.Granted, rec, called, rec.LeaseEnd); anew.LeaseEnd != rec.LeaseEnd.Add(time.Minute) {
		t.Errorf("lease end: got %d, want a minute after %d", anew.LeaseEnd, rec.LeaseEnd)
	}
}

func TestALeaseBeyondTheEndOfTimeDoesNotWrap(t *testing.T) {
	endless := asked(func(c *lifecycle.Begin) { c.Grant.UnsettledRetention = 1<<63 - 1 })
	rec := must(t, lifecycle.Granted, nil, endless, 1<<63-1-oncekeeper.Instant(time.Hour))
	if rec.Expires < rec.LeaseEnd || rec.LeaseEnd <= 0 {
		t.Errorf("got lease end %d and expiry %d, want them in order", rec.LeaseEnd, rec.Expires)
	}
}

func TestTokensGrowAcrossASweptRecordAlthoughTheClockSteppedBack(t *testing.T) {
	short := asked(func(c *lifecycle.Begin) { c.Grant.Retention, c.Grant.Lease = time.Second, time.Second })
	rec := must(t, lifecycle.Granted, nil, short, start)
	back := start.Add(-time.Hour)
	rec = must(t, lifecycle.Settled, rec, as(oncekeeper.SettledFinal, rec.Token), back)
	for at := back; at < start.Add(2*time.Hour); at = at.Add(10 * time.Minute) {
		if !lifecycle.Gone(rec, at) {
			must(t, lifecycle.Replayed, rec, short, at)
			continue
		}
		// A sweep has deleted it.
		if next := must(t, lifecycle.Granted, nil, short, at); next.Token <= rec.Token {
			t.Fatalf("at %v: token %d was granted after %d", at.Time(), next.Token, rec.Token)
		}
	}
}
