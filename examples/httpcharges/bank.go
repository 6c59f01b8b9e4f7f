package main

import (
	"errors"
	"fmt"
	"sync"
)

type charge struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

// silentAmount is charged by a bank whose first answer is lost.
const silentAmount = 502

var errNoAnswer = errors.New("the bank did not answer")

// bank is where the money is.
type bank struct {
	mu      sync.Mutex
	charges []charge
	made    map[string]charge // by the key of the request
}

func newBank() *bank { return &bank{made: map[string]charge{}} }

// charge takes the money. With look it looks first whether an earlier attempt of
// the key took it.
func (b *bank) charge(key string, amount int, look bool) (charge, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if before, ok := b.made[key]; ok && look {
		return before, nil
	}
	c := charge{ID: fmt.Sprintf("ch_%d", len(b.charges)+1), Amount: amount}
	b.charges = append(b.charges, c)
	b.made[key] = c
	if amount == silentAmount {
		return charge{}, errNoAnswer // and yet it is done
	}
	return c, nil
}

func (b *bank) all() []charge {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]charge{}, b.charges...)
}
