package client_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

type charge struct {
	ID     string
	Amount int64
}

// twice asks twice for want, and checks that the second gets it without a run.
func twice[T any](t *testing.T, want T, same func(a, b T) bool) {
	t.Helper()
	w := newWorld(t)
	runs := 0
	for ask := range 2 {
		got, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (T, error) {
			runs++
			return want, nil
		})
		if err != nil || !same(got, want) {
			t.Errorf("ask %d gave %v, %v, want %v", ask, got, err, want)
		}
	}
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

func equal[T any](a, b T) bool { return reflect.DeepEqual(a, b) }

func TestAReplayGivesTheValueBack(t *testing.T) {
	t.Run("struct", func(t *testing.T) { twice(t, charge{"ch_1", 9_007_199_254_740_993}, equal) })
	t.Run("pointer", func(t *testing.T) { twice(t, &charge{"ch_1", 2}, equal) })
	t.Run("string", func(t *testing.T) { twice(t, "ü", equal) })
	t.Run("nothing", func(t *testing.T) { twice(t, struct{}{}, equal) })
	t.Run("bytes", func(t *testing.T) { twice(t, []byte{0, 255}, bytes.Equal) })
	t.Run("empty bytes", func(t *testing.T) { twice(t, []byte{}, bytes.Equal) })
	t.Run("message", func(t *testing.T) {
		twice(t, wrapperspb.String("x"), func(a, b *wrapperspb.StringValue) bool { return proto.Equal(a, b) })
	})
	t.Run("empty message", func(t *testing.T) {
		twice(t, &wrapperspb.StringValue{}, func(a, b *wrapperspb.StringValue) bool { return proto.Equal(a, b) })
	})
	t.Run("some message", func(t *testing.T) { twice[proto.Message](t, wrapperspb.Int64(7), proto.Equal) })
}

func TestWhatIsKeptSaysWhatItIs(t *testing.T) {
	w := newWorld(t)
	kept := func(name string, do func(k oncekeeper.Key) error, contentType, body string) {
		k := key
		k.ID = name
		if err := do(k); err != nil {
			t.Fatal(err)
		}
		r := w.record(k).Response
		if r.ContentType != contentType || string(r.Body) != body {
			t.Errorf("%s is kept as %q, %q, want %q, %q", name, r.ContentType, r.Body, contentType, body)
		}
	}
	kept("message", func(k oncekeeper.Key) error {
		_, err := client.Do(t.Context(), w.keeper, k, func(context.Context, *client.Attempt) (*wrapperspb.StringValue, error) {
			return wrapperspb.String("x"), nil
		})
		return err
	}, "type.googleapis.com/google.protobuf.StringValue", "\n\x01x")
	kept("json", func(k oncekeeper.Key) error {
		_, err := client.Do(t.Context(), w.keeper, k, func(context.Context, *client.Attempt) (charge, error) { return charge{"a", 1}, nil })
		return err
	}, "application/json", `{"ID":"a","Amount":1}`)
	kept("bytes", func(k oncekeeper.Key) error {
		_, err := client.Do(t.Context(), w.keeper, k, func(context.Context, *client.Attempt) ([]byte, error) { return []byte("raw"), nil })
		return err
	}, "application/octet-stream", "raw")
}

func TestAReplayOfAnotherTypeIsAnErrorAndNoZeroValue(t *testing.T) {
	w := newWorld(t)
	if _, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (*wrapperspb.StringValue, error) {
		return wrapperspb.String("x"), nil
	}); err != nil {
		t.Fatal(err)
	}
	undecodable := func(name string, err error) {
		if !errors.Is(err, client.ErrUndecodable) || !strings.Contains(err.Error(), "google.protobuf.StringValue") {
			t.Errorf("as %s: %v, want ErrUndecodable that says what it is", name, err)
		}
	}
	_, err := client.Do(t.Context(), w.keeper, key, neverRun(t))
	undecodable("int", err)
	_, err = client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) ([]byte, error) { return nil, nil })
	undecodable("[]byte", err)
	_, err = client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (*wrapperspb.Int64Value, error) { return nil, nil })
	undecodable("another message", err)
}

func TestAValueTooLargeToKeepIsGivenOnceAndThenPointedTo(t *testing.T) {
	for name, tc := range map[string]struct{ told, taken int64 }{
		"more than was told":            {told: 10, taken: 10},
		"more than the service will do": {told: 0, taken: 10},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.maxBytes = tc.taken
			if tc.told == 0 {
				w.hideLimit = true
			}
			ask := func(body string) (string, error) {
				got, err := client.Do(t.Context(), w.keeper, key, func(_ context.Context, a *client.Attempt) ([]byte, error) {
					return []byte(body), a.SetResource("charges/ch_1")
				})
				return string(got), err
			}
			if got, err := ask("eleven byte"); got != "eleven byte" || err != nil {
				t.Errorf("the first caller got %q, %v, want it whole", got, err)
			}
			_, err := ask("")
			var notKept *client.NotKeptError
			if !errors.As(err, &notKept) || !errors.Is(err, oncekeeper.ErrResponseNotKept) || notKept.Resource != "charges/ch_1" {
				t.Errorf("the second caller got %v, want ErrResponseNotKept with the pointer", err)
			}
			if status.Code(err) != codes.FailedPrecondition {
				t.Errorf("its code is %v", status.Code(err))
			}
		})
	}
}

func TestAValueAtTheLimitIsKept(t *testing.T) {
	w := newWorld(t)
	w.maxBytes = 10
	for range 2 {
		got, err := client.Do(t.Context(), w.keeper, key, func(_ context.Context, a *client.Attempt) ([]byte, error) {
			return []byte("ten bytes!"), a.SetResource("charges/ch_1")
		})
		if string(got) != "ten bytes!" || err != nil {
			t.Errorf("Do = %q, %v", got, err)
		}
	}
	if r := w.record(key).Response; r.Resource != "charges/ch_1" {
		t.Errorf("its resource is %q", r.Resource)
	}
}

func TestAValueThatCannotBeEncodedIsGivenAndNotKept(t *testing.T) {
	w := newWorld(t, client.WithLogger(slog.New(slog.DiscardHandler)))
	send := func(context.Context, *client.Attempt) (func(), error) { return func() {}, nil }
	if got, err := client.Do(t.Context(), w.keeper, key, send); got == nil || err != nil {
		t.Errorf("Do = %v: it ran", err)
	}
	if _, err := client.Do(t.Context(), w.keeper, key, send); !errors.Is(err, oncekeeper.ErrResponseNotKept) {
		t.Errorf("the replay is %v, want ErrResponseNotKept", err)
	}
}

type upper struct{}

func (upper) Encode(s string) ([]byte, string, error) {
	return []byte(strings.ToUpper(s)), "text/upper", nil
}
func (upper) Decode(b []byte, contentType string) (string, error) {
	return strings.ToLower(string(b)), nil
}

type wordy struct{ upper }

func (wordy) Encode(s string) ([]byte, string, error) {
	return []byte(s), strings.Repeat("x", oncekeeper.MaxContentTypeBytes+1), nil
}

func TestAContentTypeThatIsTooLongIsNotKept(t *testing.T) {
	w := newWorld(t, client.WithLogger(slog.New(slog.DiscardHandler)))
	got, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (string, error) { return "abc", nil }, client.WithCodec(wordy{}))
	if got != "abc" || err != nil || !w.record(key).Response.Omitted {
		t.Errorf("Do = %q, %v, kept as %+v", got, err, w.record(key).Response)
	}
}

func TestACodecIsTheCallersToChoose(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		got, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (string, error) { return "abc", nil }, client.WithCodec(upper{}))
		if got != "abc" || err != nil {
			t.Errorf("Do = %q, %v", got, err)
		}
	}
	if r := w.record(key).Response; string(r.Body) != "ABC" || r.ContentType != "text/upper" {
		t.Errorf("it is kept as %q, %q", r.ContentType, r.Body)
	}
	k := key
	k.ID = "other"
	if _, err := client.Do(t.Context(), w.keeper, k, neverRun(t), client.WithCodec(upper{})); err == nil || w.record(k) != nil {
		t.Errorf("a codec of another type is taken: %v", err)
	}
}
