package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/server/policy"
	"github.com/oncekeeper/oncekeeper/storage"
)

func TestWhatCallsAreAnsweredIsCounted(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		reg, config := showing()
		h := start(t, on, setup{config: config})
		g := h.grant(t, begin("1", "a"))
		mismatched := begin("1", "b")
		mismatched.Fingerprint = []byte("another")
		_, _ = h.Begin(testContext(t), mismatched)
		_, _ = h.Begin(testContext(t), begin("1", "b")) // in progress
		_, _ = h.Complete(testContext(t), &pb.CompleteRequest{Key: key("1"), FencingToken: g.GetFencingToken() + 1, Response: &pb.StoredResponse{}})
		h.complete(t, "1", g.GetFencingToken(), "done")
		_, _ = h.Begin(testContext(t), begin("1", "b")) // replayed
		h.grant(t, begin("2", "a"))
		h.advance(31 * time.Second)
		h.fail(t, "2", h.grant(t, begin("2", "b")).GetFencingToken(), pb.FailRequest_DISPOSITION_RETRYABLE)
		_, _ = h.Begin(testContext(t), begin("", "c"))
		_, err := h.BatchBegin(testContext(t), &pb.BatchBeginRequest{Requests: []*pb.BeginRequest{begin("3", "a"), begin("1", "c"), begin("4", "a")}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = h.BatchBegin(testContext(t), &pb.BatchBeginRequest{})

		got := scrape(t, reg)
		wantSeries(t, got.of("oncekeeper_verdicts_total"), map[string]float64{
			"{method=Begin,result=granted,rule=default}":       2,
			"{method=Begin,result=takeover,rule=default}":      1,
			"{method=Begin,result=mismatch,rule=default}":      1,
			"{method=Begin,result=in_progress,rule=default}":   1,
			"{method=Begin,result=replayed,rule=default}":      1,
			"{method=Begin,result=invalid,rule=default}":       1,
			"{method=Complete,result=fenced,rule=default}":     1,
			"{method=Complete,result=completed,rule=default}":  1,
			"{method=Fail,result=released,rule=default}":       1,
			"{method=BatchBegin,result=granted,rule=default}":  2,
			"{method=BatchBegin,result=replayed,rule=default}": 1,
			"{method=BatchBegin,result=invalid,rule=-}":        1,
		})
		wantValues(t, got, map[string]float64{
			"grpc_server_handled_total{grpc_code=OK,grpc_method=Begin,grpc_service=oncekeeper.v1.IdempotencyService,grpc_type=unary}":              5,
			"grpc_server_handled_total{grpc_code=InvalidArgument,grpc_method=Begin,grpc_service=oncekeeper.v1.IdempotencyService,grpc_type=unary}": 1,
			"grpc_server_handling_seconds{grpc_method=Fail,grpc_service=oncekeeper.v1.IdempotencyService,grpc_type=unary}":                         1,
			"oncekeeper_store_call_seconds{call=apply}": 10,
		})
	})
}

func TestARequestThatCannotBeDecodedIsCounted(t *testing.T) {
	reg, config := showing()
	h := start(t, onPebble(t), setup{config: config, codec: grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")})})
	if err := h.conn.Invoke(testContext(t), pb.IdempotencyService_Begin_FullMethodName, []byte{0xff}, &pb.BeginResponse{}); err == nil {
		t.Fatal("a request that is no message was answered")
	}
	wantSeries(t, scrape(t, reg).of("oncekeeper_verdicts_total"), map[string]float64{"{method=Begin,result=invalid,rule=-}": 1})
}

func TestACallThatPanicsIsCountedAsInternal(t *testing.T) {
	reg, config := showing(func(cfg *server.Config) { cfg.Store = panicking{cfg.Store} })
	h := start(t, onPebble(t), setup{config: config})
	if _, err := h.Get(testContext(t), &pb.GetRequest{Key: key("1")}); status.Code(err) != codes.Internal {
		t.Fatalf("Get gave %v, want an Internal", err)
	}
	wantValues(t, scrape(t, reg), map[string]float64{
		"oncekeeper_verdicts_total{method=Get,result=internal,rule=default}":                                                          1,
		"grpc_server_handled_total{grpc_code=Internal,grpc_method=Get,grpc_service=oncekeeper.v1.IdempotencyService,grpc_type=unary}": 1,
		"oncekeeper_calls_in_flight{method=Get}":                                                                                      0,
		"oncekeeper_store_calls_in_flight{call=read}":                                                                                 0,
	})
}

// panicking is a store with a fault that nobody foresaw.
type panicking struct{ storage.Store }

func (panicking) Read(context.Context, ...oncekeeper.Key) (storage.Snapshot, error) { panic("a fault") }

// An option's interceptor is inside of what counts, and may answer with anything.
func TestAnAnswerThatCannotBeCountedIsGivenAllTheSame(t *testing.T) {
	odd := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if info.FullMethod == pb.IdempotencyService_Begin_FullMethodName {
			return &emptypb.Empty{}, nil
		}
		return handler(ctx, req)
	}
	log := &logged{grown: make(chan struct{}, 1)}
	reg, config := showing(func(cfg *server.Config) {
		cfg.Logger, cfg.Options = slog.New(slog.NewTextHandler(log, nil)), []grpc.ServerOption{grpc.ChainUnaryInterceptor(odd)}
	})
	h := start(t, onPebble(t), setup{config: config})
	for range 3 {
		if _, err := h.Begin(testContext(t), begin("1", "a")); err != nil {
			t.Fatalf("Begin gave %v, want the interceptor's answer", err)
		}
	}
	if _, err := h.Get(testContext(t), &pb.GetRequest{Key: key("1")}); reasonOf(err) != "KEY_NOT_FOUND" {
		t.Errorf("Get gave %v, want that there is no record", err)
	}
	got := scrape(t, reg)
	wantSeries(t, got.of("oncekeeper_verdicts_total"), map[string]float64{"{method=Get,result=not_found,rule=default}": 1})
	wantValues(t, got, map[string]float64{"oncekeeper_calls_in_flight{method=Begin}": 0})
	if n := strings.Count(log.String(), "could not be counted"); n != 1 {
		t.Errorf("three such answers made %d lines of log, want 1:\n%s", n, log)
	}
}

// A method's name is its caller's word. gRPC shows one that nobody has to
// interceptors only where an option has such calls answered.
func TestAMethodThatNobodyHasMakesNoSeries(t *testing.T) {
	for name, options := range map[string][]grpc.ServerOption{
		"refused by gRPC":       nil,
		"answered by an option": {grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return status.Error(codes.NotFound, "no such method") })},
	} {
		t.Run(name, func(t *testing.T) {
			reg, config := showing(func(cfg *server.Config) { cfg.Options = options })
			h := start(t, onPebble(t), setup{config: config})
			before := scrape(t, reg)
			for i := range 100 {
				for _, method := range []string{fmt.Sprintf("/oncekeeper.v1.IdempotencyService/Begin%d", i), fmt.Sprintf("/service%d/Begin", i)} {
					if err := h.conn.Invoke(testContext(t), method, &emptypb.Empty{}, &emptypb.Empty{}); err == nil {
						t.Fatalf("%s was answered", method)
					}
				}
			}
			if anew := scrape(t, reg).anew(before); len(anew) > 0 {
				t.Errorf("200 names of methods made these series: %q", anew)
			}
		})
	}
}

func TestWhoWaitsIsSeen(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		reg, config := showing()
		h := start(t, on, setup{config: config, waiters: 3, allWaiters: 4})
		g := h.grant(t, begin("1", "a"))
		answers := h.wait(t, "1", 3)
		wantValues(t, scrape(t, reg), map[string]float64{
			"oncekeeper_waiters{}":                     3,
			"oncekeeper_waited_keys{}":                 1,
			"oncekeeper_calls_in_flight{method=Begin}": 3,
		})

		_, _ = h.Begin(testContext(t), waiting("1", "fourth", time.Second))
		h.grant(t, begin("2", "a"))
		late := make(chan answer, 1)
		go func() {
			res, err := h.Begin(testContext(t), waiting("2", "b", 10*time.Second))
			late <- answer{res, err}
		}()
		h.asleep(t, 4)
		_, _ = h.Begin(testContext(t), waiting("2", "c", time.Second))

		h.complete(t, "1", g.GetFencingToken(), "done")
		for range 3 {
			<-answers
		}
		h.advance(10 * time.Second)
		<-late
		wantValues(t, scrape(t, reg), map[string]float64{
			"oncekeeper_waiters{}":                           0,
			"oncekeeper_waited_keys{}":                       0,
			"oncekeeper_waiters_refused_total{bound=key}":    1,
			"oncekeeper_waiters_refused_total{bound=server}": 1,
			"oncekeeper_wakeups_total{with=answer}":          3,
			"oncekeeper_wakeups_total{with=end}":             0,
		})
	})
}

func TestALookAtASharedStoreIsCountedByWhatItFound(t *testing.T) {
	onEverySharedStore(t, func(t *testing.T, on records) {
		reg, config := showing()
		h, other := start(t, on, setup{config: config}), start(t, on, setup{})
		g := h.grant(t, begin("1", "a"))
		answers := h.wait(t, "1", 1)
		other.complete(t, "1", g.GetFencingToken(), "elsewhere")
		h.look(t, 1)
		<-answers
		for ctx := testContext(t); scrape(t, reg)["oncekeeper_looks_total{found=changed}"] == 0 && ctx.Err() == nil; {
			runtime.Gosched() // the look tells the waiter before it is counted
		}
		wantValues(t, scrape(t, reg), map[string]float64{"oncekeeper_looks_total{found=changed}": 1, "oncekeeper_looks_total{found=failed}": 0})
	})
}

// faulted is a store whose calls all fail so.
type faulted struct {
	storage.Store
	err error
}

func (f faulted) Apply(_ context.Context, cmds ...lifecycle.Command) []storage.Result {
	results := make([]storage.Result, len(cmds))
	for i := range results {
		results[i].Err = f.err
	}
	return results
}

func (f faulted) Read(context.Context, ...oncekeeper.Key) (storage.Snapshot, error) {
	return storage.Snapshot{}, f.err
}

func (f faulted) List(context.Context, storage.ListQuery) (storage.Page, error) {
	return storage.Page{}, f.err
}

func (f faulted) Sweep(context.Context, storage.SweepQuery) (storage.Swept, error) {
	return storage.Swept{}, f.err
}

func TestFaultsOfTheStoreAreToldApart(t *testing.T) {
	for kind, err := range map[string]error{
		"unavailable": fmt.Errorf("%w: no route", oncekeeper.ErrStoreUnavailable),
		"overloaded":  fmt.Errorf("full: %w", oncekeeper.ErrOverloaded),
		"internal":    errors.New("what nobody foresaw"),
		"":            context.Canceled, // a caller that left is no fault
	} {
		t.Run(kind, func(t *testing.T) {
			reg, config := showing(func(cfg *server.Config) { cfg.Store = faulted{cfg.Store, err} })
			h := operate(t, onPebble(t), config)
			_, _ = h.Begin(testContext(t), begin("1", "a"))
			_, _ = h.BatchBegin(testContext(t), &pb.BatchBeginRequest{Requests: []*pb.BeginRequest{begin("1", "a"), begin("2", "a")}})
			_, _ = h.Get(testContext(t), &pb.GetRequest{Key: key("1")})
			_, _ = h.ListRecords(testContext(t), &pb.ListRecordsRequest{})
			_, _ = h.Sweep(testContext(t), &pb.SweepRequest{})
			for series, n := range scrape(t, reg).of("oncekeeper_store_faults_total") {
				want := 0.0
				switch {
				case kind != "" && strings.Contains(series, "kind="+kind) && strings.Contains(series, "call=apply"):
					want = 3
				case kind != "" && strings.Contains(series, "kind="+kind):
					want = 1
				}
				if n != want {
					t.Errorf("after %v, %s is %v, want %v", err, series, n, want)
				}
			}
		})
	}
}

func TestTheSweeperTellsWhatItDid(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h, store := swept(t, on, server.Sweeping{})
		for i := range 3 {
			h.complete(t, fmt.Sprint(i), h.grant(t, begin(fmt.Sprint(i), "")).GetFencingToken(), "")
		}
		h.advance(retention + grace)
		store.next(t)
		h.sleeps(t)
		wantValues(t, scrape(t, store.metrics), map[string]float64{
			"oncekeeper_swept_records_total{by=sweeper}":    3,
			"oncekeeper_swept_records_total{by=operator}":   0,
			"oncekeeper_sweep_runs_total{}":                 1,
			"oncekeeper_sweep_failures_total{}":             0,
			"oncekeeper_sweep_stopped{}":                    0,
			"oncekeeper_sweep_last_run_timestamp_seconds{}": float64(epoch.Add(retention + grace).Unix()),
		})

		down := oncekeeper.ErrStoreUnavailable
		store.err.Store(&down)
		h.advance(90 * time.Second)
		store.next(t)
		h.sleeps(t)
		wantValues(t, scrape(t, store.metrics), map[string]float64{
			"oncekeeper_sweep_runs_total{}":                 1,
			"oncekeeper_sweep_failures_total{}":             1,
			"oncekeeper_sweep_last_run_timestamp_seconds{}": float64(epoch.Add(retention + grace).Unix()),
		})
	})
}

func TestAnOperatorsSweepIsCountedApart(t *testing.T) {
	h, store := swept(t, onPebble(t), server.Sweeping{})
	h.complete(t, "1", h.grant(t, begin("1", "")).GetFencingToken(), "")
	h.records.advance(retention + grace)
	h.sweep(t, &pb.SweepRequest{DryRun: true})
	h.sweep(t, &pb.SweepRequest{})
	wantValues(t, scrape(t, store.metrics), map[string]float64{
		"oncekeeper_swept_records_total{by=sweeper}":  0,
		"oncekeeper_swept_records_total{by=operator}": 1,
	})
}

func TestASweeperThatStoppedForGoodCanBeSeen(t *testing.T) {
	h, store := swept(t, onPebble(t), server.Sweeping{})
	wantValues(t, scrape(t, store.metrics), map[string]float64{"oncekeeper_sweep_stopped{}": 0})
	store.wrong.Store(time.Hour.Microseconds())
	h.advance(90 * time.Second)
	h.log.await(t, "this server sweeps no more")
	wantValues(t, scrape(t, store.metrics), map[string]float64{"oncekeeper_sweep_stopped{}": 1})
}

func TestTwoServersOnOneRegistryAreRefusedInWords(t *testing.T) {
	_, config := showing()
	on := onPebble(t)
	start(t, on, setup{config: config})
	cfg := server.Config{Store: on.open(t)}
	config(&cfg)
	if _, err := server.New(cfg); err == nil || !strings.Contains(err.Error(), "a registry, or a prefix, of its own") {
		t.Errorf("a second server on one registry gives the error %v, want one that says what to do", err)
	}
}

func TestVerdictsAreCountedByTheRuleThatHolds(t *testing.T) {
	named := func(rules ...string) *policy.Set {
		text := "rules:\n"
		for _, rule := range rules {
			text += fmt.Sprintf("  - name: %s\n    operation: %s.*\n", rule, rule)
		}
		return policies(t, text)
	}
	live := policy.NewLive(named("cards", "mail"))
	reg, config := showing(func(cfg *server.Config) { cfg.Policy, cfg.Policies = nil, live })
	h := start(t, onPebble(t), setup{config: config})
	call := func(operation string) {
		t.Helper()
		req := begin("1", "a")
		req.Key.Operation = operation
		h.grant(t, req)
	}
	call("cards.pay")
	call("mail.send")
	call("else")
	wantSeries(t, scrape(t, reg).of("oncekeeper_verdicts_total"), map[string]float64{
		"{method=Begin,result=granted,rule=cards}": 1, "{method=Begin,result=granted,rule=mail}": 1, "{method=Begin,result=granted,rule=default}": 1,
	})
	live.Use(named("mail"))
	wantSeries(t, scrape(t, reg).of("oncekeeper_verdicts_total"), map[string]float64{
		"{method=Begin,result=granted,rule=mail}": 1, "{method=Begin,result=granted,rule=default}": 1,
	})
	for i := range 50 {
		live.Use(named(fmt.Sprint("rule", i)))
		call(fmt.Sprintf("rule%d.do", i))
	}
	wantSeries(t, scrape(t, reg).of("oncekeeper_verdicts_total"), map[string]float64{
		"{method=Begin,result=granted,rule=rule49}": 1, "{method=Begin,result=granted,rule=default}": 1,
	})
}
