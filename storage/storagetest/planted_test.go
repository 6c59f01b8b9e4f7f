package storagetest

import (
	"context"

	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

type flaw struct {
	apply                                func(r *reference, ctx context.Context, cmds []lifecycle.Command) []storage.Result
	readsGone, sweepsBlind, sweepsPrefix bool
}
