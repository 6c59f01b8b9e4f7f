package server

import (
	"context"
	"fmt"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/auth"
	"github.com/oncekeeper/oncekeeper/storage"
)

// maxBatch is the number of items in a batch.
const maxBatch = 256

func (s idempotency) BatchBegin(ctx context.Context, req *pb.BatchBeginRequest) (*pb.BatchBeginResponse, error) {
	var whole fields
	keys := make([]*pb.Key, len(req.GetRequests()))
	for i, item := range req.GetRequests() {
		keys[i] = item.GetKey()
		if item.GetWait().AsDuration() != 0 {
			whole.refuse(fmt.Sprintf("requests[%d].wait", i), "is not taken in a batch: ask alone")
		}
	}
	whole.batchKeys("requests", "key", keys)
	if err := whole.err(); err != nil {
		return nil, s.statusOf(ctx, err, "")
	}
	policies := s.policiesOf(keys)
	results := s.applyItems(ctx, pb.IdempotencyService_BatchBegin_FullMethodName, keys, func(i int) (lifecycle.Command, error) {
		f := fields{prefix: fmt.Sprintf("requests[%d].", i)}
		cmd, _ := readBegin(&f, req.GetRequests()[i], policies[i])
		cmd.Principal = auth.FromContext(ctx).Name()
		return cmd, f.err()
	})
	answer := &pb.BatchBeginResponse{}
	for i, res := range results {
		item := &pb.BatchBeginResult{}
		if err := res.Refusal(); err != nil {
			item.Result = &pb.BatchBeginResult_Error{Error: s.batchError(ctx, err)}
		} else {
			item.Result = &pb.BatchBeginResult_Response{Response: beginAnswer(res, 0, policies[i])}
		}
		answer.Results = append(answer.Results, item)
	}
	return answer, nil
}

func (s idempotency) BatchSettle(ctx context.Context, req *pb.BatchSettleRequest) (*pb.BatchSettleResponse, error) {
	var whole fields
	keys := make([]*pb.Key, len(req.GetSettlements()))
	for i, item := range req.GetSettlements() {
		switch item := item.GetSettlement().(type) {
		case *pb.Settlement_Complete:
			keys[i] = item.Complete.GetKey()
		case *pb.Settlement_Fail:
			keys[i] = item.Fail.GetKey()
		default:
			whole.refuse(fmt.Sprintf("settlements[%d]", i), "is neither complete nor fail")
		}
	}
	whole.batchKeys("settlements", "key", keys)
	if err := whole.err(); err != nil {
		return nil, s.statusOf(ctx, err, "")
	}
	policies := s.policiesOf(keys)
	results := s.applyItems(ctx, pb.IdempotencyService_BatchSettle_FullMethodName, keys, func(i int) (lifecycle.Command, error) {
		var cmd lifecycle.Settle
		f := fields{}
		switch item := req.GetSettlements()[i].GetSettlement().(type) {
		case *pb.Settlement_Complete:
			f.prefix = fmt.Sprintf("settlements[%d].complete.", i)
			cmd = readComplete(&f, item.Complete, policies[i])
		case *pb.Settlement_Fail:
			f.prefix = fmt.Sprintf("settlements[%d].fail.", i)
			cmd = readFail(&f, item.Fail, policies[i])
		}
		return cmd, f.err()
	})
	answer := &pb.BatchSettleResponse{}
	for _, res := range results {
		item := &pb.BatchSettleResult{}
		if err := res.Refusal(); err != nil {
			item.Result = &pb.BatchSettleResult_Error{Error: s.batchError(ctx, err)}
		} else {
			item.Result = &pb.BatchSettleResult_ExpireTime{ExpireTime: wire.InstantToProto(res.Record.Expires)}
		}
		answer.Results = append(answer.Results, item)
	}
	return answer, nil
}

// batchKeys refuses a batch that has no item, too many, or one key twice: its
// items would not be independent.
func (f *fields) batchKeys(items, path string, keys []*pb.Key) {
	if len(keys) < 1 || len(keys) > maxBatch {
		f.refuse(items, "has %d items; 1 to %d are taken", len(keys), maxBatch)
	}
	first := make(map[oncekeeper.Key]int, len(keys))
	for i, p := range keys {
		if p == nil {
			continue // refused as an item
		}
		key := wire.KeyFromProto(p)
		if at, twice := first[key]; twice {
			f.refuse(fmt.Sprintf("%s[%d].%s", items, i, path), "is the key of %s[%d] too", items, at)
			continue
		}
		first[key] = i
	}
}

// applyItems reads each item, and has those applied that are valid and that the
// caller may have applied.
func (s *Server) applyItems(ctx context.Context, method string, keys []*pb.Key, read func(int) (lifecycle.Command, error)) []storage.Result {
	results := make([]storage.Result, len(keys))
	var cmds []lifecycle.Command
	var places []int
	for i := range results {
		if err := s.permit(ctx, method, keys[i]); err != nil {
			results[i].Err = err
			continue
		}
		cmd, err := read(i)
		if err != nil {
			results[i].Err = err
			continue
		}
		cmds, places = append(cmds, cmd), append(places, i)
	}
	for j, res := range s.apply(ctx, cmds...) {
		results[places[j]] = res
	}
	return results
}
