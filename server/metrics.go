package server

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper/internal/tally"
	"github.com/oncekeeper/oncekeeper/metrics"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/internal/answers"
	"github.com/oncekeeper/oncekeeper/server/policy"
)

func newCounts() *answers.Counts {
	return answers.NewCounts(&pb.IdempotencyService_ServiceDesc, &pb.AdminService_ServiceDesc)
}

// exposed are a server's numbers as Prometheus sees them.
type exposed struct {
	to   prometheus.Registerer // nil: nowhere
	grpc *grpcprom.ServerMetrics
	// methods that the server has, by full name. A stream's name is its caller's word
	// where some option has strange methods answered too.
	methods map[string]bool
	// follows is the set of policies whose rules answers are counted by.
	follows   atomic.Pointer[policy.Set]
	following sync.Mutex
	uncounted sync.Once
}

func newExposed(to prometheus.Registerer) *exposed {
	var bounds []float64
	for _, d := range tally.TimeBounds() {
		bounds = append(bounds, d.Seconds())
	}
	return &exposed{
		to:      to,
		grpc:    grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(grpcprom.WithHistogramBuckets(bounds))),
		methods: map[string]bool{},
	}
}

// options come before all others: what a call is answered, after a panic too, is
// seen from outside.
func (e *exposed) options(s *Server) []grpc.ServerOption {
	if e.to == nil {
		return nil
	}
	known := selector.MatchFunc(func(_ context.Context, call interceptors.CallMeta) bool { return e.methods[call.FullMethod()] })
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(e.grpc.UnaryServerInterceptor(), s.watchCall),
		grpc.ChainStreamInterceptor(selector.StreamServerInterceptor(e.grpc.StreamServerInterceptor(), known)),
	}
}

// register has the numbers of s, whose services are all registered, read from now
// on.
func (e *exposed) register(s *Server) error {
	if e.to == nil {
		return nil
	}
	for service, info := range s.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			e.methods["/"+service+"/"+m.Name] = true
		}
	}
	e.grpc.InitializeMetrics(s.grpc)
	for _, c := range []prometheus.Collector{e.grpc, metrics.Collect(func() *Server { return s }, readings)} {
		if err := e.to.Register(c); err != nil {
			return fmt.Errorf("server.Config: Metrics: %w: give each server a registry, or a prefix, of its own", err)
		}
	}
	return nil
}

// watchCall counts a call and what it is answered.
func (s *Server) watchCall(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	place, ours := s.counts.Place(info.FullMethod)
	if !ours {
		return handler(ctx, req)
	}
	s.counts.Enter(place)
	defer s.counts.Leave(place)
	res, err := handler(ctx, req)
	s.countAnswer(ctx, place, req, res, err)
	return res, err
}

// countAnswer counts what a call was answered, whatever stood between: an option's
// interceptor may answer with what no handler would. No fault of the counting is the
// caller's, who has an answer.
func (s *Server) countAnswer(ctx context.Context, place int, req, res any, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			s.exposed.uncounted.Do(func() {
				s.log.ErrorContext(ctx, "an answer could not be counted, and the next such are not told: please report it", "fault", fault, "stack", string(debug.Stack()))
			})
		}
	}()
	set := s.followPolicy()
	answers.Judge(req, res, err, func(key *pb.Key, v answers.Verdict) { s.counts.Count(place, ruleOf(set, key), v) })
}

// followPolicy counts by the rules of the set that holds now, which it gives.
func (s *Server) followPolicy() *policy.Set {
	set := s.policies.Current()
	if s.exposed.follows.Load() == set {
		return set
	}
	s.exposed.following.Lock()
	defer s.exposed.following.Unlock()
	if set = s.policies.Current(); s.exposed.follows.Load() != set {
		s.counts.Follow(set.Names())
		s.exposed.follows.Store(set)
	}
	return set
}

// ruleOf names the rule that decides about key.
func ruleOf(set *policy.Set, key *pb.Key) string {
	if key == nil {
		return answers.NoRule
	}
	_, rule := set.For(key.GetTenant(), key.GetOperation())
	return rule
}
