package fingerprint

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"
)

// JSON is the SHA-256 of the text in the canonical form of RFC 8785 (JCS), by
// scheme jcs1: white space, the order of members and the way a character is
// escaped make no difference; the order of an array does.
//
// It departs from the RFC for numbers that are not what a double prints as. The
// RFC rounds them, and 9007199254740993 would become ...992; here each keeps its
// exact decimal value. So two numbers are equal when their values are, and a
// document that JavaScript wrote has the RFC's form.
//
// Errors: [ErrJSON] and [ErrTooDeep].
func JSON(text []byte) (Fingerprint, error) {
	w := jsonWriters.Get().(*jsonWriter)
	defer w.free()
	canonical, err := w.document(text)
	if err != nil {
		return Fingerprint{}, err
	}
	sum := sha256.Sum256(canonical)
	return Fingerprint{Scheme: SchemeJSON, Digest: sum[:]}, nil
}

// jsonWriter reads strict JSON (RFC 8259) and appends its canonical form.
type jsonWriter struct {
	text     []byte
	at       int
	out      []byte
	members  []jsonMember // of all objects being read, innermost last
	unquoted []byte       // strings that had escapes, decoded
	digits   []byte
	reorder  []byte
}

// jsonMember is where a member of an object stands in out.
type jsonMember struct {
	name       []byte
	start, end int
}

var jsonWriters = sync.Pool{New: func() any { return new(jsonWriter) }}

// free gives the writer back. It must hold on to no text.
func (w *jsonWriter) free() {
	if cap(w.out)+cap(w.unquoted)+cap(w.digits)+cap(w.reorder) > 2*maxKept || cap(w.members) > maxKept/64 {
		return
	}
	w.text = nil
	w.members = cut(w.members, 0)
	jsonWriters.Put(w)
}

func (w *jsonWriter) document(text []byte) ([]byte, error) {
	w.text, w.at = text, 0
	w.out, w.unquoted = w.out[:0], w.unquoted[:0]
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%w: invalid UTF-8", ErrJSON)
	}
	w.space()
	if err := w.value(1); err != nil {
		return nil, err
	}
	w.space()
	if w.at < len(w.text) {
		return nil, w.fault("more after the value")
	}
	return w.out, nil
}

func (w *jsonWriter) fault(what string) error {
	return fmt.Errorf("%w: offset %d: %s", ErrJSON, w.at, what)
}

// value reads one value. Depth is what an object or array here would have.
func (w *jsonWriter) value(depth int) error {
	switch c := w.peek(); {
	case c == '{':
		return w.object(depth)
	case c == '[':
		return w.array(depth)
	case c == '"':
		s, err := w.string()
		w.out = appendJSONString(w.out, s)
		return err
	case c == '-' || isDigit(c):
		return w.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if w.skip(word) {
			w.out = append(w.out, word...)
			return nil
		}
	}
	return w.fault("a value should be here")
}

func (w *jsonWriter) array(depth int) error {
	if depth > MaxDepth {
		return ErrTooDeep
	}
	w.skip("[")
	w.out = append(w.out, '[')
	w.space()
	for first := true; !w.skip("]"); first = false {
		if !first {
			if !w.skip(",") {
				return w.fault("a comma or ] should be here")
			}
			w.out = append(w.out, ',')
			w.space()
		}
		if err := w.value(depth + 1); err != nil {
			return err
		}
		w.space()
	}
	w.out = append(w.out, ']')
	return nil
}

func (w *jsonWriter) object(depth int) error {
	if depth > MaxDepth {
		return ErrTooDeep
	}
	w.skip("{")
	w.out = append(w.out, '{')
	base, sorted := len(w.members), true
	w.space()
	for first := true; !w.skip("}"); first = false {
		if !first {
			if !w.skip(",") {
				return w.fault("a comma or } should be here")
			}
			w.out = append(w.out, ',')
			w.space()
		}
		member, err := w.member(depth)
		if err != nil {
			return err
		}
		if !first && compareUTF16(w.members[len(w.members)-1].name, member.name) >= 0 {
			sorted = false
		}
		w.members = append(w.members, member)
		w.space()
	}
	if !sorted {
		if !w.sort(w.members[base:]) {
			return w.fault("an object that ends here has a name twice")
		}
	}
	w.members = cut(w.members, base)
	w.out = append(w.out, '}')
	return nil
}

func (w *jsonWriter) member(depth int) (jsonMember, error) {
	if w.peek() != '"' {
		return jsonMember{}, w.fault("a name should be here")
	}
	start := len(w.out)
	name, err := w.string()
	if err != nil {
		return jsonMember{}, err
	}
	w.out = appendJSONString(w.out, name)
	w.space()
	if !w.skip(":") {
		return jsonMember{}, w.fault("a colon should be here")
	}
	w.out = append(w.out, ':')
	w.space()
	if err := w.value(depth + 1); err != nil {
		return jsonMember{}, err
	}
	return jsonMember{name, start, len(w.out)}, nil
}

// sort puts the members of one object, the last thing in out, into the order of
// their names. False means that two have the same name.
func (w *jsonWriter) sort(members []jsonMember) bool {
	start := members[0].start
	slices.SortFunc(members, func(a, b jsonMember) int { return compareUTF16(a.name, b.name) })
	w.reorder = w.reorder[:0]
	for i, m := range members {
		if i > 0 {
			if compareUTF16(members[i-1].name, m.name) == 0 {
				return false
			}
			w.reorder = append(w.reorder, ',')
		}
		w.reorder = append(w.reorder, w.out[m.start:m.end]...)
	}
	copy(w.out[start:], w.reorder)
	return true
}

// peek is the next byte, or 0 at the end, which begins nothing in JSON.
func (w *jsonWriter) peek() byte {
	if w.at < len(w.text) {
		return w.text[w.at]
	}
	return 0
}

// skip passes over the token if it is next.
func (w *jsonWriter) skip(token string) bool {
	end := w.at + len(token)
	if end > len(w.text) || string(w.text[w.at:end]) != token {
		return false
	}
	w.at = end
	return true
}

func (w *jsonWriter) space() {
	for w.at < len(w.text) {
		switch w.text[w.at] {
		case ' ', '\t', '\n', '\r':
			w.at++
		default:
			return
		}
	}
}
