package abuse

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// raw is a connection that speaks HTTP/2 as badly as it likes.
type raw struct {
	net.Conn
	*http2.Framer
	next uint32
}

// dialFrom connects from an address of its own, as another host would.
func dialFrom(ctx context.Context, host, to string) (net.Conn, error) {
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}).DialContext(ctx, "tcp", to)
}

// connect begins HTTP/2. Where it reads, what it reads is passed over.
func connect(ctx context.Context, to string, reads bool, settings ...http2.Setting) (*raw, error) {
	conn, err := dialFrom(ctx, attacker, to)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	_, err = io.WriteString(conn, http2.ClientPreface)
	r := &raw{Conn: conn, Framer: http2.NewFramer(conn, conn), next: 1}
	if err = errors.Join(err, r.WriteSettings(settings...)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	if reads {
		go func() { _, _ = io.Copy(io.Discard, conn) }()
	}
	return r, nil
}

// call sends the headers of one, with more of them, and gives its stream.
func (r *raw) call(method string, more ...hpack.HeaderField) (uint32, error) {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method},
		{Name: ":authority", Value: "x"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}, more...) {
		_ = enc.WriteField(f) // to memory
	}
	stream, text := r.next, block.Bytes()
	r.next += 2
	const most = 16 << 10
	first := text[:min(len(text), most)]
	err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndHeaders: len(first) == len(text)})
	for text = text[len(first):]; err == nil && len(text) > 0; {
		part := text[:min(len(text), most)]
		text = text[len(part):]
		err = r.WriteContinuation(stream, len(text) == 0, part)
	}
	return stream, err
}

// message sends one of a length that is said, whatever it has.
func (r *raw) message(stream uint32, says uint32, has []byte, last bool) error {
	head := binary.BigEndian.AppendUint32([]byte{0}, says)
	return r.WriteData(stream, last, append(head, has...))
}

func encoded(m proto.Message) []byte {
	text, _ := proto.Marshal(m) // it is sound
	return text
}

const (
	beginMethod = pb.IdempotencyService_Begin_FullMethodName
	getMethod   = pb.IdempotencyService_Get_FullMethodName
)

var largeHeader = hpack.HeaderField{Name: "x-large", Value: strings.Repeat("x", 1<<20)}
