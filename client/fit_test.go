package client

import (
	"reflect"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper"
)

func TestWhatIsKeptFits(t *testing.T) {
	complete := func(r *oncekeeper.Response) Ended { return Ended{As: oncekeeper.SettledComplete, Response: r} }
	failed := func(as oncekeeper.Settlement, st *oncekeeper.Status) Ended { return Ended{As: as, Status: st} }
	long := strings.Repeat("x", oncekeeper.MaxStatusMessageBytes+1)
	for name, tc := range map[string]struct{ in, want Ended }{
		"no response":           {complete(nil), complete(&oncekeeper.Response{Resource: "r"})},
		"a resource of its own": {complete(&oncekeeper.Response{Resource: "own"}), complete(&oncekeeper.Response{Resource: "own"})},
		"at the limit":          {complete(&oncekeeper.Response{Body: []byte("0123")}), complete(&oncekeeper.Response{Body: []byte("0123"), Resource: "r"})},
		"over the limit": {
			complete(&oncekeeper.Response{Body: []byte("01234"), ContentType: "c", StatusCode: 201}),
			complete(&oncekeeper.Response{Omitted: true, ContentType: "c", StatusCode: 201, Resource: "r"}),
		},
		"a content type that cannot travel": {
			complete(&oncekeeper.Response{Body: []byte("0"), ContentType: "\xff", StatusCode: 201}),
			complete(&oncekeeper.Response{Omitted: true, StatusCode: 201, Resource: "r"}),
		},
		"metadata that cannot travel": {
			complete(&oncekeeper.Response{Metadata: []oncekeeper.MetadataEntry{{Name: "\xff"}}}),
			complete(&oncekeeper.Response{Omitted: true, Resource: "r"}),
		},
		"a resource that cannot travel": {
			complete(&oncekeeper.Response{Resource: "\xff"}), complete(&oncekeeper.Response{Omitted: true}),
		},
		"no status": {failed(oncekeeper.SettledFinal, nil), failed(oncekeeper.SettledFinal, &oncekeeper.Status{Code: 2})},
		"a code of OK": {
			failed(oncekeeper.SettledRetryable, &oncekeeper.Status{Message: "m"}),
			failed(oncekeeper.SettledRetryable, &oncekeeper.Status{Code: 2, Message: "m"}),
		},
		"a code of its own": {
			failed(oncekeeper.SettledFinal, &oncekeeper.Status{Code: 17}), failed(oncekeeper.SettledFinal, &oncekeeper.Status{Code: 2}),
		},
		"a long message": {
			failed(oncekeeper.SettledFinal, &oncekeeper.Status{Code: 5, Message: long}),
			failed(oncekeeper.SettledFinal, &oncekeeper.Status{Code: 5, Message: long[1:]}),
		},
		"details at the limit": { // a tag and a length each
			failed(oncekeeper.SettledFinal, &oncekeeper.Status{Code: 5, Details: [][]byte{{}, {}}}),
			failed(oncekeeper.SettledFinal, &oncekeeper.Status{Code: 5, Details: [][]byte{{}, {}}}),
		},
		"details over the limit": {
			failed(oncekeeper.SettledFinal, &oncekeeper.Status{Code: 5, Details: [][]byte{{1}, {}}}),
			failed(oncekeeper.SettledFinal, &oncekeeper.Status{Code: 5}),
		},
		"no settlement": {Ended{}, failed(oncekeeper.SettledUnknown, &oncekeeper.Status{Code: 2})},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fit(tc.in, 4, "r"); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("fit = %+v %+v, want %+v %+v", got.Response, got.Status, tc.want.Response, tc.want.Status)
			}
		})
	}
	big := complete(&oncekeeper.Response{Body: []byte("0123456789")})
	if got := fit(big, 0, ""); string(got.Response.Body) != "0123456789" || got.Response.Omitted {
		t.Errorf("with no limit told, fit = %+v", got.Response)
	}
}

func TestTheLeastOfAFailureIsItsCode(t *testing.T) {
	st := &oncekeeper.Status{Code: 5, Message: "m", Details: [][]byte{{1}}}
	if got := least(Ended{As: oncekeeper.SettledFinal, Status: st}); got.As != oncekeeper.SettledFinal || !reflect.DeepEqual(got.Status, &oncekeeper.Status{Code: 5}) {
		t.Errorf("least = %+v", got)
	}
	r := &oncekeeper.Response{Resource: strings.Repeat("x", oncekeeper.MaxResourceBytes+1)}
	if got := least(Ended{As: oncekeeper.SettledComplete, Response: r}); got.Response.Resource != "" || !got.Response.Omitted {
		t.Errorf("least = %+v", got.Response)
	}
}

func TestDetailsAreKeptUpToTheirNumber(t *testing.T) {
	for n, want := range map[int]int{oncekeeper.MaxStatusDetails: oncekeeper.MaxStatusDetails, oncekeeper.MaxStatusDetails + 1: 0} {
		st := &oncekeeper.Status{Code: 5, Details: make([][]byte, n)}
		if got := fit(Ended{As: oncekeeper.SettledFinal, Status: st}, 0, ""); len(got.Status.Details) != want {
			t.Errorf("of %d details, %d are kept, want %d", n, len(got.Status.Details), want)
		}
		if got := StatusOf(GRPCStatus(st).Err()); len(got.Details) != want {
			t.Errorf("of %d details, a status has %d, want %d: what the first caller gets is what is kept", n, len(got.Details), want)
		}
	}
}
