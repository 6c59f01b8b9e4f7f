package storagetest

import (
	"errors"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

func faulty(t *testing.T) (*Faulty, *hands) {
	o := openReference(flaw{})(t)
	f := NewFaulty(o.Store)
	t.Cleanup(func() { _ = f.Close() })
	o.Store = f
	return f, newHands(t, o)
}

func TestAFaultyStoreWithNoFaultsPassesTheSuite(t *testing.T) {
	Run(t, func(t testing.TB) Opened {
		o := openReference(flaw{})(t)
		o.Store, o.Reopen = NewFaulty(o.Store), nil
		return o
	})
}

func TestALostAnswerWasAppliedAndItsCallIDGetsTheGrant(t *testing.T) {
	f, h := faulty(t)
	f.Lose(1, Only[lifecycle.Begin])
	begin := h.begins(keyOf("k"))
	if res := f.Apply(background, begin)[0]; !errors.Is(res.Err, oncekeeper.ErrStoreUnavailable) || res.Record != nil {
		t.Fatalf("got %+v, want ErrStoreUnavailable alone", res)
	}
	if verdict := f.Apply(background, h.begins(keyOf("k")))[0].Verdict; verdict != lifecycle.InProgress {
		t.Errorf("another call: got %v, want in_progress", verdict)
	}
	if verdict := f.Apply(background, begin)[0].Verdict; verdict != lifecycle.Granted {
		t.Errorf("the same call: got %v, want granted", verdict)
	}
}

func TestAFailedCommandWasNotAppliedAndTheOthersOfItsCallWere(t *testing.T) {
	f, h := faulty(t)
	lost := keyOf("lost")
	f.Fail(1, func(cmd lifecycle.Command) bool { return cmd.Target() == lost })
	first, failed, last := h.begins(keyOf("first")), h.begins(lost), h.begins(keyOf("last"))
	results := f.Apply(background, first, failed, last)
	h.mirror.judged(h, first, results[0])
	h.unavailable("the failed one", results[1].Err)
	h.mirror.judged(h, last, results[2])
	h.read(first.Key, lost, last.Key)
	h.want(lifecycle.Granted, failed)
}

func TestAHeldApplyIsAppliedOnlyWhenReleasedAndAnsweredOnlyThen(t *testing.T) {
	f, h := faulty(t)
	for name, c := range map[string]struct {
		hold    func(Match) *Hold
		applied bool
	}{"before": {f.HoldBefore, false}, "after": {f.HoldAfter, true}} {
		key := keyOf(name)
		hold := c.hold(Only[lifecycle.Begin])
		answered := make(chan lifecycle.Verdict, 1)
		begin := h.begins(key)
		go func() { answered <- f.Apply(background, begin)[0].Verdict }()
		<-hold.Reached()
		got, err := f.Read(background, key)
		if err != nil || (got.Records[0] != nil) != c.applied {
			t.Errorf("held %s: got %+v %v, want applied: %v", name, got.Records, err, c.applied)
		}
		select {
		case verdict := <-answered:
			t.Errorf("held %s, and answered %v", name, verdict)
		default:
		}
		hold.Release()
		hold.Release()
		if verdict := <-answered; verdict != lifecycle.Granted {
			t.Errorf("held %s and released: got %v, want granted", name, verdict)
		}
	}
}

func TestAStoreThatIsDownRefusesAllAndIsWhatItWasAfterwards(t *testing.T) {
	f, h := faulty(t)
	token := h.granted(keyOf("k"))
	f.SetDown(true)
	h.unavailable("apply", f.Apply(background, completes(keyOf("k"), token))[0].Err)
	_, err := f.Read(background, keyOf("k"))
	h.unavailable("read", err)
	_, err = f.List(background, listAll)
	h.unavailable("list", err)
	_, err = f.Sweep(background, grace(0))
	h.unavailable("sweep", err)
	h.unavailable("ping", f.Ping(background))
	f.SetDown(false)
	h.read(keyOf("k"))
	h.want(lifecycle.Settled, completes(keyOf("k"), token))
}
