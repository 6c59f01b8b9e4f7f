package oncetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/oncetest"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func TestAHeldKeyIsResolvedByAnOperatorAndReplayed(t *testing.T) {
	keeper := oncetest.Start(t)
	key := oncekeeper.Key{Tenant: "acme", Operation: "pay", ID: "1"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pay := func() (string, error) {
		return client.Do(ctx, keeper.Client(), key, func(context.Context, *client.Attempt) (string, error) {
			return "", errors.New("the bank did not answer")
		}, client.WithHold())
	}
	if _, err := pay(); err == nil {
		t.Fatal("it did not fail")
	}
	if _, err := pay(); !errors.Is(err, oncekeeper.ErrUnresolved) {
		t.Fatalf("a held key gives %v", err)
	}
	_, err := keeper.Admin().ResolveRecord(ctx, &pb.ResolveRecordRequest{
		Key: &pb.Key{Tenant: "acme", Operation: "pay", Id: "1"}, Etag: keeper.Record(key).Etag, Reason: "it is in the ledger",
		Resolution: &pb.ResolveRecordRequest_Completed{Completed: &pb.StoredResponse{Body: []byte(`"paid"`), ContentType: "application/json"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pay(); err != nil || got != "paid" {
		t.Errorf("after it was resolved it gives %q, %v", got, err)
	}
}
