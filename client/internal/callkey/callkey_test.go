package callkey

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/oncekeeper/oncekeeper"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
)

func TestAFieldIsReadAsItIsSet(t *testing.T) {
	for name, c := range map[string]struct {
		request proto.Message
		want    string
	}{
		"without presence, unset": {&testservicev1.ChargeRequest{}, "[]"},
		"without presence, set":   {&testservicev1.ChargeRequest{RequestId: "k"}, `["k"]`},
		"with presence, unset":    {&testservicev1.CaptureRequest{}, "[]"},
		"with presence, empty":    {&testservicev1.CaptureRequest{RequestId: proto.String("")}, `[""]`},
		"with presence, set":      {&testservicev1.CaptureRequest{RequestId: proto.String("k")}, `["k"]`},
	} {
		keys, err := ReadField(c.request, "request_id")
		if got := fmt.Sprintf("%q", keys); got != c.want || err != nil {
			t.Errorf("%s: ReadField = %s, %v; want %s", name, got, err, c.want)
		}
	}
}

func TestWhatIsNoKeyFieldIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		request any
		field   string
		says    string
	}{
		"no message":          {"k", "request_id", "holds no message"},
		"nothing":             {nil, "request_id", "holds no message"},
		"a nil message":       {(*testservicev1.ChargeRequest)(nil), "request_id", "holds no message"},
		"another field":       {&testservicev1.ChargeRequest{}, "missing", "is no field of testservice.v1.ChargeRequest"},
		"a number":            {&testservicev1.ChargeRequest{}, "cents", "is no single string"},
		"bytes":               {wrapperspb.Bytes([]byte("k")), "value", "is no single string"},
		"a member of a oneof": {structpb.NewNumberValue(7), "string_value", "is one of a oneof"},
	} {
		keys, err := ReadField(c.request, c.field)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: ReadField = %q, %v; want an error that says %q", name, keys, err, c.says)
		}
	}
}

func TestAKeyIsPutIntoACopy(t *testing.T) {
	request := &testservicev1.ChargeRequest{Cents: 5, Card: &testservicev1.Card{Number: "4242"}}
	got := WithField(request, "request_id", "k").(*testservicev1.ChargeRequest)
	if got.GetRequestId() != "k" || got.GetCents() != 5 || got.GetCard().GetNumber() != "4242" || got.GetCard() == request.GetCard() {
		t.Errorf("WithField gives %v, want a deep copy with the key", got)
	}
	if request.GetRequestId() != "" {
		t.Errorf("the maker's own request now says %q", request.GetRequestId())
	}
	if again := WithField(got, "request_id", "k"); again != any(got) {
		t.Errorf("a request that has the key already is copied")
	}
}

func TestThePlacesOfAKeyMustAgree(t *testing.T) {
	const field = "request_id"
	option := func(keys ...string) Named { return Named{Place: "attach.Key", Keys: keys} }
	md := func(keys ...string) Named { return Named{Place: Metadata, Keys: keys} }
	in := func(keys ...string) Named { return Named{Place: field, Keys: keys} }
	for name, c := range map[string]struct {
		places []Named
		key    string
		says   string // of the refusal; "": none
	}{
		"nothing":               {nil, "", ""},
		"places with nothing":   {[]Named{option(), md(), in()}, "", ""},
		"one":                   {[]Named{option(), md("k"), in()}, "k", ""},
		"all alike":             {[]Named{option("k", "k"), md("k"), in("k")}, "k", ""},
		"metadata twice":        {[]Named{md("k", "k")}, "", "idempotency-key: is sent more than once"},
		"an empty one":          {[]Named{md("k"), in("")}, "", "request_id: is empty"},
		"one that is not UTF-8": {[]Named{md("\xff")}, "", "idempotency-key: is not valid UTF-8"},
		"two of one place":      {[]Named{option("k", "secret")}, "", "attach.Key: is given twice, and differs"},
		"two places":            {[]Named{option("k"), md(), in("secret")}, "", "request_id: is another key than attach.Key"},
	} {
		key, named, err := Agree("p.S/M", c.places...)
		if key != c.key || named != (c.key != "") || (err != nil) != (c.says != "") {
			t.Errorf("%s: Agree = %q, %t, %v; want %q and %q", name, key, named, err, c.key, c.says)
		}
		if c.says == "" || err == nil {
			continue
		}
		if !errors.Is(err, oncekeeper.ErrInvalidRequest) || !strings.HasSuffix(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the refusal is %v, want INVALID_REQUEST that says %q and no key", name, err, c.says)
		}
	}
}

func TestOnlyOwnOptionsNameKeys(t *testing.T) {
	options := []grpc.CallOption{grpc.WaitForReady(true), Option{Key: "a"}, Option{}}
	if got := fmt.Sprintf("%q", FromOptions(options)); got != `["a" ""]` {
		t.Errorf("FromOptions = %s", got)
	}
}
