package drive

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// key is a key in use, and what the callers know of it together: a holder's token is
// no secret here, since late and false holders are what is to be tried.
type key struct {
	key oncekeeper.Key

	// lease, retention, hold and attempts are what most of its Begins ask for.
	lease, retention time.Duration
	hold             bool
	attempts         int32

	mu          sync.Mutex
	touched     bool
	tokens      []int64
	etags       []string
	begins      []lifecycle.Begin
	settlements []lifecycle.Settle
}

// remembered is how many of each kind are known of a key.
const remembered = 4

func newKey(tenant string, i int, random *rand.Rand) *key {
	k := &key{
		key:       oncekeeper.Key{Tenant: tenant, Operation: "proof.Run/Op", ID: fmt.Sprintf("key-%d", i)},
		lease:     time.Hour,
		retention: 24 * time.Hour,
		hold:      random.IntN(4) == 0,
	}
	if random.IntN(2) == 0 {
		k.lease = time.Duration(40+random.IntN(200)) * time.Millisecond
	}
	if random.IntN(2) == 0 {
		k.retention = time.Duration(20+random.IntN(200)) * time.Millisecond
	}
	if random.IntN(3) == 0 {
		k.attempts = int32(2 + random.IntN(4))
	}
	return k
}

func (k *key) proto() *pb.Key {
	return &pb.Key{Tenant: k.key.Tenant, Operation: k.key.Operation, Id: k.key.ID}
}

func (k *key) used() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.touched
}

// recall gives one of the latest of a kind, most often the very last; false where
// there is none.
func recall[T any](k *key, of *[]T, random *rand.Rand) (T, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(*of)
	if n == 0 {
		var none T
		return none, false
	}
	if random.IntN(10) < 7 {
		return (*of)[n-1], true
	}
	return (*of)[random.IntN(n)], true
}

// remember adds one of a kind, and forgets the oldest.
func remember[T comparable](k *key, of *[]T, one T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(*of); n > 0 && (*of)[n-1] == one {
		return
	}
	push(of, one)
}

func push[T any](of *[]T, one T) {
	*of = append(*of, one)
	if len(*of) > remembered {
		*of = (*of)[1:]
	}
}

func (k *key) rememberBegin(c lifecycle.Begin) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.touched = true
	push(&k.begins, c)
}

func (k *key) rememberSettlement(c lifecycle.Settle) {
	k.mu.Lock()
	defer k.mu.Unlock()
	push(&k.settlements, c)
}
