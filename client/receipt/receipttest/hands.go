package receipttest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// hands is a test's grip on one database.
type hands struct {
	*testing.T
	Database
	ctx context.Context
}

func grip(t *testing.T, db Database) *hands {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return &hands{T: t, Database: db, ctx: ctx}
}

// Text is a Codec of strings. It refuses one, which says so.
type Text struct{}

const (
	contentType = "text/plain"
	unencodable = "unencodable"
)

var errUnencodable = errors.New("this text cannot be kept")

// Encode is receipt.Codec's.
func (Text) Encode(value any) (*oncekeeper.Response, error) {
	s, ok := value.(string)
	if !ok || s == unencodable {
		return nil, errUnencodable
	}
	return responseOf(s), nil
}

func responseOf(s string) *oncekeeper.Response {
	r := &oncekeeper.Response{Resource: "texts/" + s, StatusCode: 201}
	if s != "" {
		r = &oncekeeper.Response{
			Body: []byte(s), ContentType: contentType, StatusCode: 201,
			Metadata: []oncekeeper.MetadataEntry{{Kind: oncekeeper.MetadataHeader, Name: "x-length", Value: []byte{byte(len(s))}}},
		}
	}
	return r
}

// Decode is receipt.Codec's.
func (Text) Decode(kept *oncekeeper.Response, into any) error {
	s, ok := into.(*string)
	if !ok || len(kept.Body) > 0 && kept.ContentType != contentType {
		return fmt.Errorf("%q is no text", kept.ContentType)
	}
	*s = string(kept.Body)
	return nil
}

func keyOf(id string) oncekeeper.Key {
	return oncekeeper.Key{Tenant: "acme", Operation: "charge", ID: id}
}

func claimOf(id string, token int64) receipt.Claim {
	return receipt.Claim{Key: keyOf(id), Token: token, FingerprintScheme: "raw", Fingerprint: []byte("request")}
}

// attempt gives the context of one.
func (h *hands) attempt(c receipt.Claim) (context.Context, *receipt.Permit) {
	p := &receipt.Permit{Claim: c, Codec: Text{}}
	return receipt.WithPermit(h.ctx, p), p
}

// apply runs one attempt of c whose function has one effect, named by the key, and
// gives what it kept.
func (h *hands) apply(c receipt.Claim, answer string) (string, error, *receipt.Permit) { //nolint:staticcheck // the permit is an extra of tests
	ctx, p := h.attempt(c)
	got, err := h.InTx(ctx, func(ctx context.Context, tx Tx) (string, error) {
		return answer, tx.Effect(ctx, c.Key.ID)
	})
	return got, err, p
}
