package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// keyed is a command about one key of a service.
type keyed struct {
	Tenant    string `arg:"" help:"Whose operation."`
	Operation string `arg:"" help:"Which operation."`
	ID        string `arg:"" name:"id" help:"The idempotency key."`

	remote
}

func (k *keyed) key() *pb.Key {
	return &pb.Key{Tenant: k.Tenant, Operation: k.Operation, Id: k.ID}
}

func (k *keyed) explain(err error) error {
	if errors.Is(err, oncekeeper.ErrKeyNotFound) {
		return &codedError{fmt.Errorf("there is no record of %q in %q of tenant %q, or it expired", k.ID, k.Operation, k.Tenant), exitNotFound}
	}
	return k.remote.explain(err)
}

// suggest gives a command about the same key, to be pasted into a shell.
func (k *keyed) suggest(name string, flags ...string) string {
	words := []string{"oncekeeper", name}
	if k.Address != defaultAddress {
		words = append(words, "--address", shellWord(k.Address))
	}
	words = append(words, flags...)
	for _, part := range []string{k.Tenant, k.Operation, k.ID} {
		if strings.HasPrefix(part, "-") {
			words = append(words, "--")
			break
		}
	}
	return strings.Join(append(words, shellWord(k.Tenant), shellWord(k.Operation), shellWord(k.ID)), " ")
}

// shellWord gives s as one word of a POSIX shell.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	if printable(s) != s {
		return "$" + "'" + strings.ReplaceAll(strings.Trim(strconv.Quote(s), `"`), "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
