package client

import (
	"testing"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func TestARecordOfANewerVersionReadsAsBusyAndHeld(t *testing.T) {
	r := recordFromProto(&pb.KeyRecord{State: 77, OnLeaseExpiry: 77})
	if r.State != 0 || !r.Hold {
		t.Errorf("it reads as state %v, hold %v", r.State, r.Hold)
	}
}
