package auth

import (
	"crypto/sha256"
	"fmt"
	"testing"
)

func TestOfTokensThatWereJudgedFewAreRemembered(t *testing.T) {
	keys := &issuerKeys{judged: map[[sha256.Size]byte]*Principal{}}
	for i := range 3 * maxJudged {
		digest := sha256.Sum256([]byte(fmt.Sprint(i)))
		keys.remember(digest, &Principal{})
		if n := len(keys.judged); n > maxJudged || keys.recall(digest) == nil {
			t.Fatalf("after %d tokens %d are remembered", i+1, n)
		}
	}
}
