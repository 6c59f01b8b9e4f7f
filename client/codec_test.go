package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

// replayed asks twice for what fn gives, and gives what the two callers got.
func replayed[T any](t *testing.T, value T) (first, second T, log string, err error) {
	t.Helper()
	var lines bytes.Buffer
	w := newWorld(t, client.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	give := func(context.Context, *client.Attempt) (T, error) { return value, nil }
	if first, err = client.Do(t.Context(), w.keeper, key, give); err != nil {
		t.Fatalf("the first caller got %v", err)
	}
	second, err = client.Do(t.Context(), w.keeper, key, give)
	return first, second, lines.String(), err
}

// alike: both callers get the same, to its types.
func alike[T any](t *testing.T, name string, value T) {
	t.Run(name, func(t *testing.T) {
		first, second, log, err := replayed(t, value)
		if err != nil || log != "" || !reflect.DeepEqual(first, second) {
			t.Errorf("first %#v, replay %#v, %v, log %q; want the same", first, second, err, log)
		}
	})
}

// unkept: the first caller gets the value whole, and nobody gets another one.
func unkept[T any](t *testing.T, name string, value T) {
	t.Run(name, func(t *testing.T) {
		first, second, log, err := replayed(t, value)
		if !reflect.DeepEqual(first, value) {
			t.Errorf("the first caller got %#v, want %#v", first, value)
		}
		if !errors.Is(err, oncekeeper.ErrResponseNotKept) || !strings.Contains(log, "level=WARN") {
			t.Errorf("the replay is %#v, %v, log %q; want ErrResponseNotKept and a warning", second, err, log)
		}
	})
}

type (
	stamped struct {
		At   time.Time
		Tags []string
		Raw  json.RawMessage
		Sum  *big.Int
		Left *stamped `json:",omitempty"`
		Blob []byte
		M    map[string][]int
		F    float32
		B    bool
		U    uint8
		A    [2]int
	}
	secretive struct {
		Name  string
		cents int64
	}
	skipping struct {
		Name string
		Note string `json:"-"`
	}
	promoting struct {
		time.Time
		Note string
	}
	calling struct {
		F func() `json:"-"`
	}
)

func TestAReplayIsWhatTheFirstCallerGot(t *testing.T) {
	alike(t, "what JSON has", stamped{
		At: time.Now(), Tags: []string{}, Raw: json.RawMessage(`{ "a" : 1 }`), Sum: big.NewInt(0), Left: &stamped{U: 7},
		Blob: []byte{0, 255}, M: map[string][]int{"a": {1}}, F: 0.1, B: true, A: [2]int{1, 2},
	})
	alike(t, "numbers in an any", map[string]any{"i": 5, "f": float32(0.5), "u": uint8(7), "s": "x", "n": nil, "l": []any{1.5, true}})
	alike(t, "empty unexported", secretive{Name: "a"})
	alike[*secretive](t, "nil", nil)
	alike(t, "embedded", promoting{Time: time.Now()})
	alike(t, "no function", calling{})

	unkept(t, "an integer in an any beyond a float64", map[string]any{"cents": int64(9007199254740993)})
	unkept(t, "text that is not UTF-8", "caf\xe9")
	unkept(t, "text in an any that is not UTF-8", []any{"caf\xe9"})
	unkept(t, "a key that is not UTF-8", map[string]int{"caf\xe9": 1})
	unkept(t, "an unexported field", secretive{"a", 7})
	unkept(t, "an unexported field within", []map[string]*secretive{{"a": {"b", 7}}})
	unkept(t, "a field that is left out", skipping{"a", "b"})
	unkept(t, "a field that its embedded type hides", promoting{time.Now(), "b"})
	unkept(t, "a struct in an any", []any{charge{"a", 1}})
	unkept[fmt.Stringer](t, "an interface", time.Second)
}
