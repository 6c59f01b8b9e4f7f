package client

import (
	"context"
	"fmt"
	"reflect"

	"github.com/oncekeeper/oncekeeper"
)

// receiptCodec has receipts kept by Do's codec.
type receiptCodec[T any] struct{ codec Codec[T] }

func (c receiptCodec[T]) Encode(value any) (*oncekeeper.Response, error) {
	v, ok := value.(T)
	if !ok {
		return nil, fmt.Errorf("oncekeeper: InTx gives a %T, and Do a %v: what InTx gives is the outcome, so they are of one type", value, reflect.TypeFor[T]())
	}
	body, contentType, err := c.codec.Encode(v)
	if err == nil && len(contentType) > oncekeeper.MaxContentTypeBytes {
		err = fmt.Errorf("its content type has %d bytes, at most %d are kept", len(contentType), oncekeeper.MaxContentTypeBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("oncekeeper: the value cannot be encoded: %w", err)
	}
	return &oncekeeper.Response{Body: body, ContentType: contentType}, nil
}

func (c receiptCodec[T]) Decode(kept *oncekeeper.Response, into any) error {
	to, ok := into.(*T)
	if !ok {
		return fmt.Errorf("%w: InTx takes it as a %T, and Do keeps a %v", ErrUndecodable, into, reflect.TypeFor[T]())
	}
	value, err := decode(c.codec, kept)
	if err != nil {
		return err
	}
	*to = value
	return nil
}

// setReconcile gives the request the reconciler that Do was given, if any.
func setReconcile[T any](d *doConfig, codec Codec[T]) error {
	switch f := d.reconcile.(type) {
	case nil:
	case func(context.Context, Question) (Finding, T, error):
		d.request.Reconcile = func(ctx context.Context, q Question) (Finding, *oncekeeper.Response, error) {
			found, value, err := f(ctx, q)
			if err != nil || found != Happened {
				return found, nil, err
			}
			response, err := receiptCodec[T]{codec}.Encode(value)
			return found, response, err
		}
	case func(context.Context, Question) (Finding, *oncekeeper.Response, error): // ReceiptsTell
		d.request.Reconcile = f
	default:
		var none T
		return fmt.Errorf("oncekeeper: the reconciler given is a %T, which gives no %T", f, none)
	}
	return nil
}
