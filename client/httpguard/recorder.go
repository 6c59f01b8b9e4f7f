package httpguard

import (
	"errors"
	"fmt"
	"hash"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/oncekeeper/oncekeeper"
)

// errOver is given to what still writes when the handler has returned.
var errOver = errors.New("httpguard: the handler has returned, and its answer is settled")

// recorder takes a handler's answer. It goes to the caller once it is settled: an
// attempt whose caller left must not fail because its answer has nowhere to go,
// and one that is superseded tells nothing.
//
// An answer that grows past limit will not be kept, and must not fill the memory:
// from there on it goes out as it is written, but for its last byte. That one
// goes once the attempt is settled, so what an attempt that is superseded gave is
// never whole.
//
// It is a ResponseWriter and nothing else: what is held back cannot be flushed,
// and a connection that is not the handler's cannot be hijacked.
type recorder struct {
	out    http.ResponseWriter
	limit  int
	header http.Header
	// ended says whether the handler's context is over.
	ended func() bool

	mu     sync.Mutex
	status int // 0: not written
	sent   http.Header
	body   []byte
	// declared is the Content-Length that the handler named; -1: none.
	declared, written int64
	streams, over     bool
	// dropped: past the limit, and its context was over by then.
	dropped bool
	last    byte // of what streams, held back
	// sum is of all that was written; nil: nobody asks.
	sum hash.Hash
	// nested: it is another guard's refusal.
	nested bool
	as     oncekeeper.Settlement
	// failure is what SettleBy was given.
	failure error
}

func newRecorder(out http.ResponseWriter, limit int64, ended func() bool) *recorder {
	if limit <= 0 {
		limit = defaultKeptBytes
	}
	return &recorder{out: out, limit: int(limit), ended: ended, header: out.Header().Clone(), declared: -1}
}

// Header is the handler's own; what was set outside of the guard is in it.
func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

// WriteHeader takes the status and the header as they are. An informational one
// (1xx) is dropped: it is no answer, and there is no caller to inform of a replay.
func (r *recorder) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHeader(status)
}

func (r *recorder) writeHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("httpguard: invalid WriteHeader code %d", status)) // as net/http does
	}
	if r.status != 0 || r.over || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	r.status = status
	r.sent = r.Header().Clone()
	r.nested = r.sent.Get(reasonHeader) != ""
	// They speak for the guard that answers.
	r.sent.Del(reasonHeader)
	r.sent.Del(replayedHeader)
	if n, err := strconv.ParseInt(r.sent.Get("Content-Length"), 10, 64); err == nil && n >= 0 && bodyAllowed(status) {
		r.declared = n
	} else {
		r.sent.Del("Content-Length")
	}
}

// Write never fails because of the caller.
func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return 0, errOver
	}
	if r.status == 0 {
		r.writeHeader(http.StatusOK)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if !bodyAllowed(r.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if r.declared >= 0 && int64(len(p)) > r.declared-r.written {
		return 0, http.ErrContentLength
	}
	r.written += int64(len(p))
	if r.sum != nil {
		r.sum.Write(p)
	}
	switch {
	case r.dropped:
	case r.streams:
		r.pass(p)
	case len(p) <= r.limit-len(r.body):
		r.body = append(r.body, p...)
	case r.ended():
		r.body, r.dropped = nil, true
	default:
		r.stream(p)
	}
	return len(p), nil
}

// stream lets out what was held, and p behind it.
func (r *recorder) stream(p []byte) {
	first := r.body
	if len(first) == 0 {
		first = p
	}
	r.sniff(first)
	r.streams = true
	giveHeader(r.out, r.sent)
	r.out.WriteHeader(r.status)
	if len(r.body) > 0 {
		end := len(r.body) - 1
		_, _ = r.out.Write(r.body[:end])
		r.last, r.body = r.body[end], nil
		r.pass(p)
		return
	}
	_, _ = r.out.Write(p[:len(p)-1])
	r.last = p[len(p)-1]
}

// pass lets out all but the last byte. That the other end left is no failure of
// the attempt.
func (r *recorder) pass(p []byte) {
	end := len(p) - 1
	_, _ = r.out.Write([]byte{r.last})
	_, _ = r.out.Write(p[:end])
	r.last = p[end]
}

// sniff names the content type that net/http would find, so that a replay has the
// one that the first caller got.
func (r *recorder) sniff(body []byte) {
	if found := guessed(r.sent, body); found != "" {
		r.sent.Set("Content-Type", found)
	}
}

// finish is called when the handler has returned. What it says afterwards counts
// for nothing.
func (r *recorder) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == 0 {
		r.writeHeader(http.StatusOK)
	}
	if !r.streams {
		r.sniff(r.body)
	}
	r.over = true
}

// whole says whether all of the body is there that the handler declared.
func (r *recorder) whole() bool {
	return !r.dropped && (r.declared < 0 || r.written == r.declared)
}

// release gives the caller the answer, or what is left of it.
func (r *recorder) release() {
	if r.streams {
		_, _ = r.out.Write([]byte{r.last})
	} else {
		giveHeader(r.out, r.sent)
		r.out.WriteHeader(r.status)
		if len(r.body) > 0 {
			_, _ = r.out.Write(r.body)
		}
	}
	for name, values := range r.header {
		if strings.HasPrefix(name, http.TrailerPrefix) || r.declaresTrailer(name) {
			r.out.Header()[name] = values
		}
	}
}

// abort breaks off an answer that is going out already, so that its caller sees
// that it is not whole. Where nothing went out, or ran, it does nothing.
func (r *recorder) abort() {
	if r != nil && r.streams {
		panic(http.ErrAbortHandler)
	}
}

func (r *recorder) declaresTrailer(name string) bool {
	for _, list := range r.sent["Trailer"] {
		for declared := range strings.SplitSeq(list, ",") {
			if http.CanonicalHeaderKey(strings.TrimSpace(declared)) == name {
				return true
			}
		}
	}
	return false
}

func (r *recorder) settleAs(as oncekeeper.Settlement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.as = as
}

func (r *recorder) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = err
}

// giveHeader makes out's header what header says.
func giveHeader(out http.ResponseWriter, header http.Header) {
	to := out.Header()
	maps.DeleteFunc(to, func(name string, _ []string) bool { _, kept := header[name]; return !kept })
	maps.Copy(to, header)
}

// bodyAllowed is RFC 9110's: these have no body, whatever is written.
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
