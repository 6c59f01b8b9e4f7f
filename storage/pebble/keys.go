package pebble

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/oncekeeper/oncekeeper"
)

// The store's key spaces, one byte each. An index entry is the moment it is
// ordered by, eight bytes big endian, then the record's key. Its value is empty, or
// in the index by expiry settledMark: the record is settled, and in no other index.
const (
	spaceMeta    byte = 'm'
	spaceRecord  byte = 'r'
	spaceExpiry  byte = 'x' // by Expires: every record that has one
	spacePending byte = 'p' // by LeaseEnd: every pending record
)

// settledMark is for records in a state that every version of the format knows.
var settledMark = []byte{'s'}

var (
	metaFormat = []byte{spaceMeta, 'f'}
	metaClock  = []byte{spaceMeta, 'c'}
)

// A key's parts are written one after the other, each closed by 00 01, with 00
// inside a part written 00 ff. So byte order is the order of (tenant, operation,
// id), and no two triples meet, whatever bytes they hold. The encoding is
// FoundationDB's tuple layer's for byte strings.
const (
	escape     byte = 0x00
	escapedNUL byte = 0xff
	partEnd    byte = 0x01
)

func appendKey(dst []byte, k oncekeeper.Key) []byte {
	dst = appendPart(dst, k.Tenant)
	dst = appendPart(dst, k.Operation)
	return appendPart(dst, k.ID)
}

func appendPart(dst []byte, part string) []byte {
	return append(appendEscaped(dst, part), escape, partEnd)
}

func appendEscaped(dst []byte, part string) []byte {
	if strings.IndexByte(part, escape) < 0 {
		return append(dst, part...)
	}
	for i := range len(part) {
		dst = append(dst, part[i])
		if part[i] == escape {
			dst = append(dst, escapedNUL)
		}
	}
	return dst
}

var errBadKey = errors.New("not the encoding of a key")

func decodeKey(src []byte) (oncekeeper.Key, error) {
	var parts [3]string
	for i := range parts {
		part, rest, err := cutPart(src)
		if err != nil {
			return oncekeeper.Key{}, err
		}
		parts[i], src = part, rest
	}
	if len(src) != 0 {
		return oncekeeper.Key{}, errBadKey
	}
	return oncekeeper.Key{Tenant: parts[0], Operation: parts[1], ID: parts[2]}, nil
}

func cutPart(src []byte) (part string, rest []byte, err error) {
	var out []byte
	for i := 0; i < len(src); i++ {
		if src[i] != escape {
			out = append(out, src[i])
			continue
		}
		i++
		switch {
		case i == len(src):
			return "", nil, errBadKey
		case src[i] == partEnd:
			return string(out), src[i+1:], nil
		case src[i] == escapedNUL:
			out = append(out, escape)
		default:
			return "", nil, errBadKey
		}
	}
	return "", nil, errBadKey
}

func recordKey(k oncekeeper.Key) []byte { return appendRecordKey(make([]byte, 0, 64), k) }

func appendRecordKey(dst []byte, k oncekeeper.Key) []byte {
	return appendKey(append(dst, spaceRecord), k)
}

func indexKey(space byte, at oncekeeper.Instant, k oncekeeper.Key) []byte {
	return appendKey(appendInstant(make([]byte, 0, 72), space, at), k)
}

// appendInstant begins an index entry; the record's key follows, as in recordKey
// behind its space.
func appendInstant(dst []byte, space byte, at oncekeeper.Instant) []byte {
	return binary.BigEndian.AppendUint64(append(dst, space), uint64(at))
}

// instantEnd is where in an index entry the moment ends and the key begins.
const instantEnd = 1 + 8

// keyOfIndex gives the key that an index entry points to.
func keyOfIndex(entry []byte) (oncekeeper.Key, error) {
	if len(entry) < instantEnd {
		return oncekeeper.Key{}, errBadKey
	}
	return decodeKey(entry[instantEnd:])
}

// instantOfIndex gives the moment by which an entry, of at least 9 bytes, is ordered.
func instantOfIndex(entry []byte) oncekeeper.Instant {
	return oncekeeper.Instant(binary.BigEndian.Uint64(entry[1:instantEnd]))
}

// prefixEnd gives the first key after all that begin with prefix.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}
