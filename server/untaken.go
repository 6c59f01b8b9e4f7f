package server

import (
	"context"
	"runtime"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// What is answered and not yet taken lies in the server's memory: HTTP/2 lets a caller
// ask and take nothing. So the bytes of answers are counted from when they are made
// until they are written, and past a bound a large answer becomes UNAVAILABLE, with none
// of the service's reasons. It is as one that was lost on its way, and reads as such: the
// call may have been applied, and whoever asks again, with the same call id, is given
// what it would have been.

const (
	// untakenBytes is how much one connection may leave untaken, and untakensBytes
	// how much all together; one answer each may in any case.
	untakenBytes  = 32 << 20
	untakensBytes = 256 << 20
	// smallAnswer is how large, in bytes, an answer is that is neither counted nor
	// refused: no grant is larger, and as many as maxStreams take no more than
	// untakenBytes.
	smallAnswer = untakenBytes / maxStreams
)

// untaken is a large answer on its way, of a size in bytes.
type untaken struct {
	on    *connection
	size  int64
	taken atomic.Bool
}

// take gives the room of u back, once.
func (u *untaken) take() {
	if !u.taken.Swap(true) {
		u.on.take(u.size)
	}
}

var errUntaken = status.Error(codes.Unavailable,
	"the answer is left out, since earlier ones on this connection are not taken: take them, and send the same call again with its call id")

// boundAnswers refuses what would leave too much untaken.
func (s *Server) boundAnswers(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	answer, err := handler(ctx, req)
	if err != nil {
		return answer, err
	}
	raw, _ := ctx.Value(undecodedKey{}).(*undecoded)
	message, is := answer.(proto.Message)
	if raw == nil || !is {
		return answer, nil
	}
	size := int64(proto.Size(message))
	on := connectionOf(ctx)
	if size <= smallAnswer || on == nil {
		return answer, nil
	}
	// An operator's change of a record cannot be asked for again as it was.
	_, changed := answer.(*pb.ResolveRecordResponse)
	if !on.leave(size, changed) {
		return nil, errUntaken
	}
	raw.answer = &untaken{on: on, size: size}
	return answer, nil
}

// counted is an answer that takes its room until it is written.
type counted struct {
	proto.Message
	as *untaken
}

// answered gives what is sent for answer, after all interceptors.
func (u *undecoded) answered(answer any, err error) (any, error) {
	if u.answer == nil {
		return answer, err
	}
	if message, is := answer.(proto.Message); err == nil && is {
		return &counted{Message: message, as: u.answer}, nil
	}
	u.answer.take() // another came in its place
	return answer, err
}

// marshal encodes the answer, whose room is given back when gRPC has done with it.
func (c *counted) marshal() (mem.BufferSlice, error) {
	text, err := proto.Marshal(c.Message)
	if err != nil {
		c.as.take()
		return nil, err
	}
	w := &written{as: c.as}
	// What gRPC drops, where a call ends early, it does not always free.
	w.dropped = runtime.AddCleanup(w, (*untaken).take, c.as)
	return mem.BufferSlice{mem.NewBuffer(&text, w)}, nil
}

// written is told by gRPC that an answer was written, or will not be. It keeps none of
// the memory: an answer's size is seldom another's.
type written struct {
	as      *untaken
	dropped runtime.Cleanup
}

// Get implements mem.BufferPool.
func (*written) Get(length int) *[]byte {
	text := make([]byte, length)
	return &text
}

// Put implements mem.BufferPool.
func (w *written) Put(*[]byte) {
	w.dropped.Stop()
	w.as.take()
}

// leave says whether size bytes more may be left untaken, and counts them if so. Those
// of what must be answered may.
func (c *connection) leave(size int64, must bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return true // nothing is sent
	}
	if !must && c.untaken > 0 && (c.untaken+size > c.all.mayLeave || c.all.untaken.Load()+size > c.all.mayLeaveAll) {
		return false
	}
	c.untaken += size
	c.all.untaken.Add(size)
	return true
}

func (c *connection) take(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		c.untaken -= size
		c.all.untaken.Add(-size)
	}
}

// takeAll is for one that is closed.
func (c *connection) takeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	c.all.untaken.Add(-c.untaken)
	c.untaken = 0
}
