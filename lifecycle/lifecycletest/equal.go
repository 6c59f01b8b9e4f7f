package lifecycletest

import (
	"reflect"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/oncekeeper/oncekeeper"
)

// Diff says how two records differ in what a caller can read, and is empty where
// they do not: every field counts, and no bytes are the same whether nil or empty.
func Diff(want, got *oncekeeper.KeyRecord) string {
	if reflect.DeepEqual(want, got) { // the common case, a hundred times faster
		return ""
	}
	return cmp.Diff(want, got, cmpopts.EquateEmpty())
}

// Clone gives a copy of rec that shares nothing with it.
func Clone(rec *oncekeeper.KeyRecord) *oncekeeper.KeyRecord {
	if rec == nil {
		return nil
	}
	c := *rec
	c.Fingerprint = slices.Clone(rec.Fingerprint)
	c.Checkpoint = slices.Clone(rec.Checkpoint)
	c.History = slices.Clone(rec.History)
	if rec.Response != nil {
		r := *rec.Response
		r.Body = slices.Clone(r.Body)
		r.Metadata = slices.Clone(r.Metadata)
		for i, entry := range r.Metadata {
			r.Metadata[i].Value = slices.Clone(entry.Value)
		}
		c.Response = &r
	}
	if rec.Status != nil {
		s := *rec.Status
		s.Details = slices.Clone(s.Details)
		for i, detail := range s.Details {
			s.Details[i] = slices.Clone(detail)
		}
		c.Status = &s
	}
	return &c
}
