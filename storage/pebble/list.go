package pebble

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/internal/codec"
)

// maxScanned bounds what one List reads: a page may come short, with a Next.
const maxScanned = 100_000

// List implements storage.Store.
func (s *Store) List(ctx context.Context, q storage.ListQuery) (storage.Page, error) {
	bounds, err := listBounds(q)
	if err != nil {
		return storage.Page{}, err
	}
	s.scans.RLock()
	defer s.scans.RUnlock()
	view, now, err := s.view(ctx)
	if err != nil {
		return storage.Page{}, err
	}
	var page storage.Page
	err = s.guarded(func() (err error) {
		page, err = list(ctx, view, q, bounds, now)
		return errors.Join(err, view.Close())
	})
	if err != nil {
		return storage.Page{}, s.scanError(ctx, err)
	}
	return page, nil
}

func list(ctx context.Context, view *pebble.Snapshot, q storage.ListQuery, bounds *pebble.IterOptions, now oncekeeper.Instant) (storage.Page, error) {
	page := storage.Page{Now: now}
	iter, err := view.NewIterWithContext(ctx, bounds)
	if err != nil {
		return page, err
	}
	scanned := 0
	for valid := iter.First(); valid; valid = iter.Next() {
		if scanned++; len(page.Records) >= max(1, q.Limit) || scanned > maxScanned || ctx.Err() != nil {
			page.Next = base64.RawURLEncoding.EncodeToString(position(iter.Key(), q))
			break
		}
		rec, err := recordAt(view, iter, q.Order)
		if err != nil {
			return page, errors.Join(err, iter.Close())
		}
		if listed(rec, q, now) {
			page.Records = append(page.Records, rec)
		}
	}
	return page, errors.Join(iter.Error(), iter.Close(), context.Cause(ctx))
}

// recordAt gives the record that the iterator stands at or points to.
func recordAt(view *pebble.Snapshot, iter *pebble.Iterator, order storage.Order) (*oncekeeper.KeyRecord, error) {
	if order == storage.ByAge {
		key, err := keyOfIndex(iter.Key())
		if err != nil {
			return nil, err
		}
		return readRecord(view, key, recordKey(key))
	}
	key, err := decodeKey(iter.Key()[1:])
	if err != nil {
		return nil, err
	}
	value, err := iter.ValueAndErr()
	if err != nil {
		return nil, err
	}
	return codec.Decode(key, value)
}

func listed(rec *oncekeeper.KeyRecord, q storage.ListQuery, now oncekeeper.Instant) bool {
	return rec != nil && !lifecycle.Gone(rec, now) &&
		inScope(rec.Key, q.Tenant, q.Operation) && strings.HasPrefix(rec.Key.ID, q.IDPrefix) &&
		(q.CreatedFrom == 0 || rec.Created >= q.CreatedFrom) &&
		(q.CreatedTo == 0 || rec.Created < q.CreatedTo) &&
		(len(q.States) == 0 || slices.Contains(q.States, lifecycle.StateAt(rec, now)))
}

func inScope(k oncekeeper.Key, tenant, operation string) bool {
	return (tenant == "" || k.Tenant == tenant) && (operation == "" || k.Operation == operation)
}

// listBounds gives the narrowest range that holds what q lists, from its cursor
// on.
func listBounds(q storage.ListQuery) (*pebble.IterOptions, error) {
	prefix := []byte{spacePending}
	if q.Order == storage.ByKey {
		prefix[0] = spaceRecord
		if q.Tenant != "" {
			prefix = appendPart(prefix, q.Tenant)
			if q.Operation != "" {
				prefix = appendEscaped(appendPart(prefix, q.Operation), q.IDPrefix)
			}
		}
	}
	bounds := &pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)}
	if q.After == "" {
		return bounds, nil
	}
	cursor, err := base64.RawURLEncoding.DecodeString(q.After)
	if err != nil || !bytes.HasPrefix(cursor, prefix) || !pointsToKey(cursor, q) {
		return nil, fmt.Errorf("%w: page_token is not one that this listing gave", oncekeeper.ErrInvalidRequest)
	}
	bounds.LowerBound = cursor
	return bounds, nil
}

// position gives where a listing goes on, from the next entry that it would read. In
// the index that entry may be of a key that q is not about, which must not be told:
// then the position is where the next entry in q's scope could be at the earliest.
func position(next []byte, q storage.ListQuery) []byte {
	if q.Order != storage.ByAge || q.Tenant == "" {
		return next
	}
	first := scopeInIndex(next[:instantEnd], q)
	switch {
	case bytes.HasPrefix(next, first):
		return next
	case bytes.Compare(next, first) < 0:
		return first
	default:
		return prefixEnd(next[:instantEnd])
	}
}

// scopeInIndex gives what the entries of q's scope begin with that are ordered by
// the moment in at.
func scopeInIndex(at []byte, q storage.ListQuery) []byte {
	prefix := appendPart(bytes.Clone(at), q.Tenant)
	if q.Operation != "" {
		prefix = appendPart(prefix, q.Operation)
	}
	return prefix
}

// pointsToKey: a cursor is a place in one of the key spaces, and whole, or one that
// position gave.
func pointsToKey(cursor []byte, q storage.ListQuery) bool {
	var err error
	if cursor[0] != spacePending {
		_, err = decodeKey(cursor[1:])
		return err == nil
	}
	if len(cursor) <= instantEnd {
		return q.Tenant != "" && len(cursor) > 1
	}
	if q.Tenant != "" && bytes.Equal(cursor, scopeInIndex(cursor[:instantEnd], q)) {
		return true
	}
	_, err = keyOfIndex(cursor)
	return err == nil
}

// scanError tells the caller's own end from a fault of the store.
func (s *Store) scanError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.unavailable("reading records", err)
}
