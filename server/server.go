// Package server is the service on gRPC: it reads requests, clamps them to the
// policy, has the store apply them, holds those that wait, and turns results and
// errors into answers.
//
// It decides nothing about a record, which is lifecycle's, and knows no store but
// by the contract in storage.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper/clock"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/auth"
	"github.com/oncekeeper/oncekeeper/server/internal/answers"
	"github.com/oncekeeper/oncekeeper/server/policy"
	"github.com/oncekeeper/oncekeeper/storage"
)

// Config is what a server is made of. The zero value of a field is its default,
// where one is named.
type Config struct {
	// Store keeps the records. Required; the server does not close it.
	Store storage.Store
	// Policy of every key. Default: policy.Default.
	Policy *policy.Policy
	// Policies says which policy holds for which key, in the place of Policy, and may
	// change while calls go on: each call, and each batch, is judged by what held when
	// it came.
	Policies policy.Source
	// Clock of waits. Default: clock.System.
	Clock clock.Clock
	// Logger. Default: nothing is logged.
	Logger *slog.Logger
	// MaxWaiters bounds the Begins that wait at once, in all and for one key; past
	// that they are answered in progress. Defaults: 10,000 and 1,000.
	MaxWaiters, MaxWaitersPerKey int
	// MaxConnections bounds those that are open at once; past that they are closed as
	// they come. One address has three quarters of them at the most. Default: 16,384.
	MaxConnections int
	// Sweep is how what has expired is deleted.
	Sweep Sweeping
	// BackupDir is where Backup makes backups, on this host. Default: Backup is refused.
	BackupDir string
	// Trust says who calls, and with it who may do what. Default: anyone may call, and
	// do everything.
	Trust *auth.Trust
	// Metrics is where the server's numbers are registered, one server to a registry.
	// Default: nowhere.
	Metrics prometheus.Registerer
	// TracerProvider makes a span of each call, and of what the store and a wait take of
	// it: docs/tracing.md. Default: none is made.
	TracerProvider trace.TracerProvider
	// AccessLog says which calls leave a line in Logger. Default: none.
	AccessLog AccessLog
	// Options go to grpc.NewServer, behind the server's own.
	Options []grpc.ServerOption
}

// Server is the service. It serves once.
type Server struct {
	store     *measured
	counts    *answers.Counts
	exposed   *exposed
	policies  policy.Source
	clock     clock.Clock
	log       *slog.Logger
	waiting   *waiting
	watch     *watcher
	sweeper   *sweeper
	backupDir string
	faults    *faultLog
	trust     *auth.Trust
	strangers *faultLog
	conns     *connections
	refused   *refusedLog
	spans     spans
	access    *accessLog
	health    *health.Server
	grpc      *grpc.Server
	// streams ends when those who watch the health must go; endStreams ends it.
	streams    context.Context
	endStreams context.CancelFunc
}

// New makes a server, or says what is wrong with cfg.
func New(cfg Config) (*Server, error) {
	if cfg.Store == nil {
		return nil, errors.New("server.Config: Store is required")
	}
	s := &Server{
		clock: cfg.Clock, log: cfg.Logger, health: health.NewServer(), backupDir: cfg.BackupDir, trust: cfg.Trust,
		counts: newCounts(), exposed: newExposed(cfg.Metrics),
	}
	var err error
	if s.policies, err = cfg.policies(); err != nil {
		return nil, err
	}
	sweep, err := cfg.Sweep.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("server.Config: Sweep: %w", err)
	}
	if s.clock == nil {
		s.clock = clock.System
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := cfg.AccessLog.check(); err != nil {
		return nil, err
	}
	s.spans, s.access = newSpans(cfg.TracerProvider), newAccessLog(cfg.AccessLog, s.clock)
	s.store = measure(cfg.Store, s.clock)
	s.store.spans = s.spans
	s.streams, s.endStreams = context.WithCancel(context.Background())
	s.faults = newFaultLog(s.clock, "calls are answered with a passing fault")
	s.strangers = newFaultLog(s.clock, "calls are refused: it is not known who makes them")
	s.conns = &connections{
		max: orDefault(cfg.MaxConnections, 16_384), judged: s.trust != nil, clock: s.clock, log: s.log, from: map[string]int{},
		mayLeave: untakenBytes, mayLeaveAll: untakensBytes,
	}
	s.refused = newRefusedLog(s.clock)
	s.waiting = newWaiting(s.clock, orDefault(cfg.MaxWaiters, 10_000), orDefault(cfg.MaxWaitersPerKey, 1_000))
	s.watch = newWatcher(s)
	s.sweeper = &sweeper{store: s.store, clock: s.clock, log: s.log, cfg: sweep, failed: s.logUnasked}
	s.grpc = grpc.NewServer(append(s.options(), cfg.Options...)...)
	s.registerStrict(&pb.IdempotencyService_ServiceDesc, idempotency{Server: s})
	s.registerStrict(&pb.AdminService_ServiceDesc, admin{Server: s})
	healthpb.RegisterHealthServer(s.grpc, s.health)
	for _, service := range []string{pb.IdempotencyService_ServiceDesc.ServiceName, pb.AdminService_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(service, healthpb.HealthCheckResponse_SERVING)
	}
	reflection.Register(s.grpc)
	if err := s.exposed.register(s); err != nil {
		return nil, err
	}
	return s, nil
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// maxMessage is what gRPC clients take unless told otherwise, too: a batch of
// settlements, or one with the largest response that a policy may allow.
const maxMessage = 4 << 20

func (s *Server) options() []grpc.ServerOption {
	unary, stream := s.trusted()
	ours := func(fullMethod string) bool {
		_, is := s.counts.Place(fullMethod)
		return is
	}
	return append(s.exposed.options(s),
		s.spans.option(ours),
		s.seeCalls(),
		grpc.ForceServerCodecV2(strictCodec{}),
		// A batch of settlements, or one with the largest response.
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.ConnectionTimeout(beginTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idleTimeout,
			// Connections end now and then, so that callers balance over servers.
			MaxConnectionAge:      30 * time.Minute,
			MaxConnectionAgeGrace: time.Minute,
			Time:                  time.Minute,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(s.boundAnswers, recovery.UnaryServerInterceptor(recovery.WithRecoveryHandlerContext(s.recovered))),
		grpc.ChainStreamInterceptor(recovery.StreamServerInterceptor(recovery.WithRecoveryHandlerContext(s.recovered)), s.letStreamGo),
		unary, stream, s.met(),
	)
}

// letStreamGo ends a stream when the server stops: a health watcher would hold it
// up until its callers' patience is over.
func (s *Server) letStreamGo(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.streams, cancel)()
	return handler(srv, &endingStream{ServerStream: stream, ctx: ctx})
}

type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *endingStream) Context() context.Context { return s.ctx }

// recovered answers a call that panicked. What it had written stands.
func (s *Server) recovered(ctx context.Context, fault any) error {
	s.log.ErrorContext(ctx, "a call panicked: please report it", "fault", fault, "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "an internal fault: the server's log has it")
}

// Serve answers calls on lis until Shutdown; it gives nil then.
func (s *Server) Serve(lis net.Listener) error {
	defer s.watch.start()()
	defer s.sweeper.start()()
	if err := s.grpc.Serve(s.conns.bound(lis)); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil // Shutdown came first
}

// Shutdown lets the service go: health says NOT_SERVING, waiters are answered
// UNAVAILABLE, calls under way are finished. Where ctx ends first the rest is
// cut off, and ctx's cause is given.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.Shutdown()
	s.endStreams()
	s.waiting.close()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		s.grpc.GracefulStop()
	}()
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
		// Handlers that hang in a store that hangs are left behind.
		s.grpc.Stop()
		return context.Cause(ctx)
	}
}
