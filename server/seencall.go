package server

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/auth"
	"github.com/oncekeeper/oncekeeper/server/internal/answers"
)

// seenCall is a call as it is told in its span and in the access log.
type seenCall struct {
	method string
	// principal is known once the call was found to be somebody's.
	principal string
	// key is of a call about one, cut to the limits of a key, which nobody has judged.
	key oncekeeper.Key
	// items and verdicts: how many keys the call was about, and what they were answered.
	items    int
	verdicts map[answers.Verdict]int
	err      error
	took     time.Duration
}

type seenCallKey struct{}

// seeCalls is the interceptor that tells of calls, where somebody wants to be told.
func (s *Server) seeCalls() grpc.ServerOption {
	if s.spans.provider == nil && s.access == nil {
		return grpc.EmptyServerOption{}
	}
	return grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		span := trace.SpanFromContext(ctx)
		if _, ours := s.counts.Place(info.FullMethod); !ours || s.access == nil && !span.IsRecording() {
			return handler(ctx, req)
		}
		seen := &seenCall{method: info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]}
		since := s.clock.Monotonic()
		res, err := handler(context.WithValue(ctx, seenCallKey{}, seen), req)
		seen.took = s.clock.Monotonic() - since
		s.tellOf(ctx, seen, span, req, res, err)
		return res, err
	})
}

// tellOf tells of a call that was answered. Whatever is wrong with what is told, the
// answer goes out.
func (s *Server) tellOf(ctx context.Context, seen *seenCall, span trace.Span, req, res any, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			s.exposed.uncounted.Do(func() {
				s.log.ErrorContext(ctx, "a call could not be told of, and the next such are not told: please report it", "fault", fault, "stack", string(debug.Stack()))
			})
		}
	}()
	seen.answered(req, res, err)
	if span.IsRecording() {
		seen.tell(span)
	}
	s.access.tell(ctx, s.log, seen)
}

// seePrincipal notes who makes the call of ctx.
func seePrincipal(ctx context.Context, p *auth.Principal) {
	if seen, is := ctx.Value(seenCallKey{}).(*seenCall); is {
		seen.principal = p.Name()
	}
}

func (s *seenCall) answered(req, res any, err error) {
	s.err = err
	s.verdicts = map[answers.Verdict]int{}
	answers.Judge(req, res, err, func(_ *pb.Key, v answers.Verdict) {
		s.items++
		s.verdicts[v]++
	})
	switch req := req.(type) {
	case interface{ GetKey() *pb.Key }:
		key := req.GetKey()
		s.key = oncekeeper.Key{
			Tenant: cut(key.GetTenant(), oncekeeper.MaxTenantBytes), Operation: cut(key.GetOperation(), oncekeeper.MaxOperationBytes),
			ID: cut(key.GetId(), oncekeeper.MaxIDBytes),
		}
	case *pb.BatchBeginRequest:
		s.items = max(s.items, len(req.GetRequests()))
	case *pb.BatchSettleRequest:
		s.items = max(s.items, len(req.GetSettlements()))
	}
}

// cut keeps what somebody sent from filling a log.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// results gives what the call was answered: one word, or for a batch how many of
// each, in the order of the verdicts.
func (s *seenCall) results() string {
	var words []string
	for v := range answers.Verdict(len(answers.Names())) {
		switch n := s.verdicts[v]; {
		case n > 0 && s.items == 1:
			return v.String()
		case n > 0:
			words = append(words, fmt.Sprintf("%s:%d", v, n))
		}
	}
	return strings.Join(words, " ")
}

// matters: some of what the call was answered is more than the normal life of callers.
func (s *seenCall) matters() bool {
	for v := range s.verdicts {
		switch v {
		case answers.Mismatch, answers.Fenced, answers.AlreadySettled, answers.EtagMismatch, answers.Invalid,
			answers.Overloaded, answers.Unavailable, answers.Refused, answers.Internal:
			return true
		}
	}
	return false
}
