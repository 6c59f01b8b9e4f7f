package main

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
	"github.com/oncekeeper/oncekeeper/client/inbox"
)

// event is what the sender tells: a payment, and what is known of its account.
type event struct {
	Account string `json:"account"`
	// Amount is added: in any order, but once.
	Amount int64 `json:"amount"`
	// Version counts the changes of the account; Email is as of that version. Events
	// come in any order, so an older one must not undo a newer.
	Version int64  `json:"version"`
	Email   string `json:"email"`
}

type account struct {
	Balance int64
	Version int64
	Email   string
}

// accounts stands for the business's database.
type accounts struct {
	mu   sync.Mutex
	all  map[string]account
	done int
}

func (a *accounts) apply(e event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]account{}
	}
	acc := a.all[e.Account]
	acc.Balance += e.Amount
	if e.Version > acc.Version {
		acc.Version, acc.Email = e.Version, e.Email
	}
	a.all[e.Account] = acc
	a.done++
}

func (a *accounts) of(name string) account {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[name]
}

// worker does what was queued, each delivery once: the queue may give it twice,
// since it was pushed twice where a receiver died between the push and its record.
type worker struct {
	inbox    *inbox.Inbox // of a subscriber of its own
	accounts *accounts
}

// work does w. What cannot be read never will be: a dead letter, and not a failure
// that is tried without end.
func (wk *worker) work(ctx context.Context, w work) inbox.Result {
	m := inbox.Message{ID: w.DeliveryID, Fingerprint: fingerprint.Raw(w.Body)}
	return wk.inbox.HandleWait(ctx, m, func(context.Context, *client.Attempt) error {
		var e event
		if err := json.Unmarshal(w.Body, &e); err != nil {
			return oncekeeper.Final(err)
		}
		wk.accounts.apply(e)
		return nil
	})
}
