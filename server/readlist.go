package server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/storage"
)

// aged are the states that a listing by age orders.
var aged = []oncekeeper.State{oncekeeper.StatePending, oncekeeper.StateAbandoned, oncekeeper.StateUnresolved}

func readList(f *fields, req *pb.ListRecordsRequest) storage.ListQuery {
	q := storage.ListQuery{
		IDPrefix:    f.text("id_prefix", req.GetIdPrefix(), oncekeeper.MaxIDBytes),
		CreatedFrom: f.createdAfter("created_after", req.GetCreatedAfter()),
		CreatedTo:   f.createdBefore("created_before", req.GetCreatedBefore()),
		Limit:       f.pageSize("page_size", req.GetPageSize()),
	}
	q.Tenant, q.Operation = f.scope(req.GetTenant(), req.GetOperation())
	for i, p := range req.GetStates() {
		state := wire.StateFromProto(p)
		if state == 0 {
			f.refuse(fmt.Sprintf("states[%d]", i), "is not a state")
		}
		q.States = append(q.States, state)
	}
	slices.Sort(q.States)
	q.States = slices.Compact(q.States)
	switch req.GetOrder() {
	case pb.ListRecordsRequest_ORDER_UNSPECIFIED, pb.ListRecordsRequest_ORDER_KEY:
	case pb.ListRecordsRequest_ORDER_AGE:
		q.Order = storage.ByAge
		other := func(s oncekeeper.State) bool { return !slices.Contains(aged, s) }
		if len(q.States) == 0 || slices.ContainsFunc(q.States, other) {
			f.refuse("order", "is by age, which is only for states of PENDING, ABANDONED and UNRESOLVED: name them in states")
		}
	default:
		f.refuse("order", "is not one that this version knows")
	}
	if v := req.GetView(); v < pb.ListRecordsRequest_VIEW_UNSPECIFIED || v > pb.ListRecordsRequest_VIEW_FULL {
		f.refuse("view", "is not one that this version knows")
	}
	q.After = f.pageToken("page_token", req.GetPageToken(), q)
	return q
}

// scope judges the parts of a key that narrow what a call is about; each may be
// left out.
func (f *fields) scope(tenant, operation string) (string, string) {
	if tenant != "" {
		f.keyPart("tenant", tenant, oncekeeper.MaxTenantBytes)
	}
	if operation != "" {
		f.keyPart("operation", operation, oncekeeper.MaxOperationBytes)
	}
	return tenant, operation
}

func (f *fields) pageSize(path string, n int32) int {
	switch {
	case n < 0:
		f.refuse(path, "is below zero")
		return defaultPage
	case n == 0:
		return defaultPage
	default:
		return min(int(n), maxPage)
	}
}

// createdAfter gives the first instant after p, and none for unset.
func (f *fields) createdAfter(path string, p *timestamppb.Timestamp) oncekeeper.Instant {
	if p == nil {
		return 0
	}
	return f.instant(path, p) + 1
}

// createdBefore gives the first instant that is not before p, and none for unset.
// Nothing was created before the first instant, which is 1.
func (f *fields) createdBefore(path string, p *timestamppb.Timestamp) oncekeeper.Instant {
	if p == nil {
		return 0
	}
	at := f.instant(path, p)
	if p.GetNanos()%1000 != 0 {
		at++
	}
	return max(1, at)
}

func (f *fields) instant(path string, p *timestamppb.Timestamp) oncekeeper.Instant {
	at, err := wire.InstantFromProto(p)
	if err != nil {
		f.refuse(path, "is malformed: outside the years 1 to 9999, or its nanos are")
	}
	return at
}

// A page token is 16 bytes that stand for the query that it continues, and the
// store's cursor.
const queryBytes = 16

// maxTokenBytes is more than any page token has: a cursor holds a key, in which
// each byte may be several.
const maxTokenBytes = 8 << 10

const notOurToken = "was not given for these filters and this order: start again without one"

func pageToken(q storage.ListQuery, cursor string) string {
	if cursor == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(queryHash(q), cursor...))
}

func (f *fields) pageToken(path, token string, q storage.ListQuery) (cursor string) {
	if token == "" {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(token) > maxTokenBytes || len(raw) <= queryBytes || string(raw[:queryBytes]) != string(queryHash(q)) {
		f.refuse(path, notOurToken)
		return ""
	}
	return string(raw[queryBytes:])
}

// queryHash is of what q selects and of its order, not of how much of it is asked
// for at once.
func queryHash(q storage.ListQuery) []byte {
	h := sha256.New()
	for _, part := range []string{q.Tenant, q.Operation, q.IDPrefix} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		h.Write([]byte(part))
	}
	for _, n := range []int64{int64(q.CreatedFrom), int64(q.CreatedTo), int64(q.Order)} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	for _, state := range q.States {
		h.Write([]byte{byte(state)})
	}
	return h.Sum(nil)[:queryBytes]
}
