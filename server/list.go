package server

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/storage"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// maxPageBytes bounds a page on the wire below what a gRPC client takes unless
	// told otherwise. A page that would be longer comes short; one record always fits.
	maxPageBytes = storage.MaxAnswerBytes
	// listChunk is how many records are asked of the store at once, so that a page of
	// large ones is never in memory whole.
	listChunk = 100
)

func (s admin) ListRecords(ctx context.Context, req *pb.ListRecordsRequest) (*pb.ListRecordsResponse, error) {
	var f fields
	q := readList(&f, req)
	if err := f.err(); err != nil {
		return nil, s.statusOf(ctx, err, req.GetOperation())
	}
	asked := q
	scopes, err := s.scopes(ctx, &f, pb.AdminService_ListRecords_FullMethodName, q.Tenant, q.Operation, 1)
	if err != nil {
		return nil, s.statusOf(ctx, err, req.GetOperation())
	}
	q.Tenant, q.Operation = scopes[0].Tenant, scopes[0].Operation
	res, next, err := s.list(ctx, q, req.GetView() == pb.ListRecordsRequest_VIEW_FULL)
	if errors.Is(err, oncekeeper.ErrInvalidRequest) {
		f.refuse("page_token", notOurToken)
		err = f.err()
	}
	if err != nil {
		return nil, s.statusOf(ctx, err, req.GetOperation())
	}
	return &pb.ListRecordsResponse{Records: res, NextPageToken: pageToken(asked, next)}, nil
}

// list fills a page, and gives the store's cursor of the next; empty at the end.
// A page comes short where the store's does, or where more would not fit.
func (s admin) list(ctx context.Context, q storage.ListQuery, full bool) (page []*pb.KeyRecord, next string, err error) {
	chunk, left, room := listChunk, q.Limit, maxPageBytes
	for left > 0 {
		q.Limit = min(left, chunk)
		got, err := s.store.List(ctx, q)
		if err != nil {
			return nil, "", err
		}
		records, fit := viewAll(got, full, room)
		switch {
		case fit == 0 && len(records) > 0 && len(page) > 0:
			return page, q.After, nil
		case fit < len(records) && len(records) > 1:
			// The store's cursor is behind all that it gave: ask for what fits, and
			// for the first in any case.
			chunk = max(1, fit)
			continue
		}
		page = append(page, records...)
		left -= len(records)
		for _, rec := range records {
			room -= bytesOnPage(rec)
		}
		if len(records) < q.Limit || got.Next == "" {
			return page, got.Next, nil
		}
		q.After = got.Next
	}
	return page, q.After, nil
}

// viewAll gives a store's page as it is told, and how many of it fit in room.
func viewAll(got storage.Page, full bool, room int) (records []*pb.KeyRecord, fit int) {
	for _, rec := range got.Records {
		r := view(rec, got.Now, full)
		if room -= bytesOnPage(r); room >= 0 {
			fit++
		}
		records = append(records, r)
	}
	return records, fit
}

// bytesOnPage: with the record's tag and length.
func bytesOnPage(r *pb.KeyRecord) int { return proto.Size(r) + 8 }

// view gives rec as it stands at now; a basic view leaves out bodies, checkpoints and
// what the keys went through.
func view(rec *oncekeeper.KeyRecord, now oncekeeper.Instant, full bool) *pb.KeyRecord {
	if full {
		return recordAnswer(rec, now)
	}
	r := wire.RecordToProto(rec, lifecycle.StateAt(rec, now))
	r.Checkpoint = nil
	if response := r.GetOutcome().GetResponse(); response != nil {
		response.Body = nil
	}
	return r
}
