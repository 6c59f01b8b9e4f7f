package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// Querier runs statements, in a transaction or outside.
type Querier interface {
	// Exec gives how many rows were changed.
	Exec(ctx context.Context, statement string, args ...any) (int64, error)
	QueryRow(ctx context.Context, statement string, args ...any) Scanner
	// Query gives each row to scan.
	Query(ctx context.Context, scan func(Scanner) error, statement string, args ...any) error
}

// Scanner is a row.
type Scanner interface{ Scan(into ...any) error }

// errStandby: what a standby shows may be old.
var errStandby = errors.New("receipt: this server is a standby, which may not have the newest receipts: connect to the primary (target_session_attrs=read-write)")

// Claim takes the row of c's key for its transaction, which it waits for another to
// end for. What it could not take it gives, as it is until the transaction ends.
func (t *Table) Claim(ctx context.Context, tx Querier, c receipt.Claim) (taken bool, row *receipt.Receipt, err error) {
	k := c.Key
	n, err := tx.Exec(ctx, t.claim, k.Tenant, k.Operation, k.ID, c.FingerprintScheme, bytesOf(c.Fingerprint), c.Token)
	if err != nil || n == 1 {
		return err == nil, nil, err
	}
	row, err = scan(tx.QueryRow(ctx, t.look, k.Tenant, k.Operation, k.ID), k)
	return false, row, err
}

// Apply writes the response, encoded, into the row that c has claimed.
func (t *Table) Apply(ctx context.Context, tx Querier, c receipt.Claim, response []byte) error {
	k := c.Key
	n, err := tx.Exec(ctx, t.apply, k.Tenant, k.Operation, k.ID, c.Token, bytesOf(response))
	if err == nil && n != 1 {
		err = errors.New("receipt: the claim is gone from oncekeeper_receipts: the function must not change that table, nor end the transaction")
	}
	return err
}

// Close is receipt.Store's, within a transaction.
func (t *Table) Close(ctx context.Context, tx Querier, c receipt.Claim, floor int64) (*receipt.Receipt, error) {
	k := c.Key
	if _, err := tx.Exec(ctx, t.close, k.Tenant, k.Operation, k.ID, c.FingerprintScheme, bytesOf(c.Fingerprint), floor); err != nil {
		return nil, err
	}
	row, err := scan(tx.QueryRow(ctx, t.look, k.Tenant, k.Operation, k.ID), k)
	return certain(row, err)
}

// Look is receipt.Store's.
func (t *Table) Look(ctx context.Context, q Querier, k oncekeeper.Key) (*receipt.Receipt, error) {
	return certain(scan(q.QueryRow(ctx, t.look, k.Tenant, k.Operation, k.ID), k))
}

// certain refuses a row that says nothing.
func certain(row *receipt.Receipt, err error) (*receipt.Receipt, error) {
	if err == nil && row != nil && row.InDoubt {
		return nil, receipt.ErrInDoubt
	}
	return row, err
}

// Old is receipt.Store's.
func (t *Table) Old(ctx context.Context, q Querier, before time.Time, after oncekeeper.Key, limit int) ([]receipt.Receipt, error) {
	var found []receipt.Receipt
	err := q.Query(ctx, func(row Scanner) error {
		var r receipt.Receipt
		var written int64
		err := row.Scan(&r.Key.Tenant, &r.Key.Operation, &r.Key.ID, &r.FingerprintScheme, &r.Fingerprint, &r.Floor, &r.Token, &r.InDoubt, &written)
		r.Written = time.UnixMicro(written)
		found = append(found, r)
		return err
	}, t.old, before.UnixMicro(), after.Tenant, after.Operation, after.ID, limit)
	return found, err
}

// Delete is receipt.Store's.
func (t *Table) Delete(ctx context.Context, q Querier, k oncekeeper.Key, before time.Time) (bool, error) {
	n, err := q.Exec(ctx, t.delete, k.Tenant, k.Operation, k.ID, before.UnixMicro())
	return n > 0, err
}

func scan(row Scanner, key oncekeeper.Key) (*receipt.Receipt, error) {
	r := &receipt.Receipt{Key: key}
	var standby, there bool
	var written int64
	var response []byte
	if err := row.Scan(&standby, &there, &r.FingerprintScheme, &r.Fingerprint, &r.Floor, &r.Token, &r.InDoubt, &written, &response); err != nil {
		return nil, err
	}
	switch {
	case standby:
		return nil, errStandby
	case !there:
		return nil, nil
	}
	r.Written = time.UnixMicro(written)
	if response != nil {
		var err error
		if r.Response, err = Decode(response); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Encode gives a response as the table holds it.
func Encode(r *oncekeeper.Response) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(wire.ResponseToProto(r))
	if err != nil {
		return nil, fmt.Errorf("receipt: encoding the response: %w", err)
	}
	return bytesOf(b), nil
}

// Decode is the other way.
func Decode(b []byte) (*oncekeeper.Response, error) {
	var p pb.StoredResponse
	if err := proto.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("receipt: the response in oncekeeper_receipts cannot be read: %w", err)
	}
	return wire.ResponseFromProto(&p), nil
}

// bytesOf keeps what is empty from being null.
func bytesOf(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
