package grpcguard

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
)

func TestAPinnedMessageIsWrittenAsItsBytesAndReadAsItsMessage(t *testing.T) {
	// Field 3 before field 1, which no marshaller of Go's writes.
	body := []byte("\x1a\x01r\x0a\x01n")
	message := &testservicev1.ChargeResponse{}
	if err := proto.Unmarshal(body, message); err != nil {
		t.Fatal(err)
	}
	if plain, err := proto.Marshal(message); err != nil || bytes.Equal(plain, body) {
		t.Fatalf("the message itself marshals to %q, %v; this test needs other bytes", plain, err)
	}
	pinned := pin(message, body)
	for name, options := range map[string]proto.MarshalOptions{"plain": {}, "deterministic": {Deterministic: true}} {
		if got, err := options.Marshal(pinned); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: it marshals to %q, %v; want %q", name, got, err, body)
		}
		if got, err := options.MarshalAppend([]byte("before"), pinned); err != nil || string(got) != "before"+string(body) {
			t.Errorf("%s: appended, it is %q, %v", name, got, err)
		}
	}
	if got := proto.Size(pinned); got != len(body) {
		t.Errorf("its size is %d, want %d", got, len(body))
	}
	if !proto.Equal(pinned, message) || !proto.Equal(message, pinned) || !proto.Equal(proto.Clone(pinned), message) {
		t.Errorf("it reads as %v, want %v", pinned, message)
	}
	json, err := protojson.Marshal(pinned)
	if want, _ := protojson.Marshal(message); err != nil || protojsonDiffers(json, want) {
		t.Errorf("as JSON it is %s, %v; want %s", json, err, want)
	}
}

// protojsonDiffers leaves out the white space that protojson strews at random.
func protojsonDiffers(a, b []byte) bool {
	strip := func(s []byte) []byte { return bytes.ReplaceAll(s, []byte(" "), nil) }
	return !bytes.Equal(strip(a), strip(b))
}
