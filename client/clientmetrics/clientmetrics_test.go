package clientmetrics_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/clientmetrics"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
	"github.com/oncekeeper/oncekeeper/client/inbox"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

// process is a caller's, with one of everything that has numbers, on one registry.
type process struct {
	service  *oncetest.Server
	keeper   *client.Client
	guarded  testservicev1.ChargeServiceClient // behind a guard
	outgoing testservicev1.ChargeServiceClient // through a guard of calls
	web      http.Handler
	orders   *inbox.Inbox
	numbers  *prometheus.Registry
	tenant   string // of whatever comes next
}

type service struct {
	testservicev1.UnimplementedChargeServiceServer
}

func (service) Refund(context.Context, *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
	return &testservicev1.RefundResponse{Name: "refunds/1"}, nil
}

func begun(t *testing.T) *process {
	t.Helper()
	s := oncetest.Start(t)
	p := &process{service: s, keeper: s.Client(), numbers: prometheus.NewPedanticRegistry(), tenant: "acme"}
	quiet := slog.New(slog.DiscardHandler)
	config := grpcguard.Config{
		Tenant: func(context.Context) (string, error) { return p.tenant, nil }, Wait: -1, Logger: quiet,
		Methods: map[string]grpcguard.Method{"testservice.v1.ChargeService/Refund": {Outage: client.OutageOpen}},
	}
	guard, err := grpcguard.New(p.keeper, config)
	must(t, err)
	outgoing, err := grpcguard.NewOutgoing(p.keeper, grpcguard.OutgoingConfig{Config: config})
	must(t, err)
	web, err := httpguard.New(p.keeper, httpguard.Config{Tenant: func(*http.Request) (string, error) { return p.tenant, nil }, Wait: -1, Logger: quiet})
	must(t, err)
	p.orders, err = inbox.New(p.keeper, inbox.Config{Tenant: "acme", Subscriber: "invoices", Logger: quiet})
	must(t, err)
	p.guarded = serve(t, []grpc.ServerOption{grpc.UnaryInterceptor(guard.Unary()), grpc.StreamInterceptor(guard.Stream())})
	p.outgoing = serve(t, nil, grpc.WithUnaryInterceptor(outgoing.Unary()))
	p.web = web.Operation("refunds.create")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	p.numbers.MustRegister(
		clientmetrics.Client(p.keeper), clientmetrics.GRPC(guard), clientmetrics.Outgoing(outgoing), clientmetrics.HTTP(web), clientmetrics.Inbox(p.orders))
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func serve(t *testing.T, by []grpc.ServerOption, options ...grpc.DialOption) testservicev1.ChargeServiceClient {
	t.Helper()
	lis, srv := bufconn.Listen(1<<20), grpc.NewServer(by...)
	testservicev1.RegisterChargeServiceServer(srv, service{})
	go func() { _ = srv.Serve(lis) }()
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("passthrough:test", append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))...)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return testservicev1.NewChargeServiceClient(conn)
}

func (p *process) refund(t *testing.T, of testservicev1.ChargeServiceClient, key, charge string) {
	t.Helper()
	ctx := t.Context()
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
	}
	_, _ = of.Refund(ctx, &testservicev1.RefundRequest{Charge: charge})
}

func (p *process) post(t *testing.T, key, body string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/refunds", strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", `"`+key+`"`)
	}
	p.web.ServeHTTP(httptest.NewRecorder(), r)
}

func (p *process) deliver(t *testing.T, id string, gives error) {
	t.Helper()
	p.orders.Handle(t.Context(), inbox.Message{ID: id}, func(context.Context, *client.Attempt) error { return gives })
}

// scrape gives the series, as `name{label=value,…}`, and their values.
func (p *process) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := p.numbers.Gather()
	must(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetCounter().GetValue()
		}
	}
	return all
}

// moves fails the test unless act adds exactly these to the series.
func (p *process) moves(t *testing.T, what string, act func(), want map[string]float64) {
	t.Helper()
	before := p.scrape(t)
	act()
	got := map[string]float64{}
	for series, value := range p.scrape(t) {
		if value != before[series] {
			got[series] = value - before[series]
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s moves %v, want %v", what, got, want)
	}
}

// timePasses lets act wait as long as it likes: for a service that is away, say.
func (p *process) timePasses(t *testing.T, act func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		act()
	}()
	for end := time.Now().Add(time.Minute); ; runtime.Gosched() {
		select {
		case <-done:
			return
		default:
		}
		if time.Now().After(end) {
			t.Fatal("a call does not end")
		}
		p.service.Clock.Advance(100 * time.Millisecond)
	}
}

func guardSeries(guard, result string) string {
	return fmt.Sprintf("oncekeeper_guard_calls_total{guard=%s,result=%s}", guard, result)
}

func TestACallOfEachKindMovesItsSeriesAndNoOther(t *testing.T) {
	p := begun(t)
	for guard, of := range map[string]testservicev1.ChargeServiceClient{"grpc": p.guarded, "grpc_outgoing": p.outgoing} {
		key := guard + "-1"
		p.moves(t, guard+", at first", func() { p.refund(t, of, key, "ch_1") }, map[string]float64{guardSeries(guard, "ran"): 1})
		p.moves(t, guard+", again", func() { p.refund(t, of, key, "ch_1") }, map[string]float64{guardSeries(guard, "replayed"): 1})
		p.moves(t, guard+", with another request", func() { p.refund(t, of, key, "ch_2") }, map[string]float64{guardSeries(guard, "mismatch"): 1})
	}
	p.moves(t, "a request, at first", func() { p.post(t, "http-1", "a") }, map[string]float64{guardSeries("http", "ran"): 1})
	p.moves(t, "a request, again", func() { p.post(t, "http-1", "a") }, map[string]float64{guardSeries("http", "replayed"): 1})
	p.moves(t, "another request with its key", func() { p.post(t, "http-1", "b") }, map[string]float64{guardSeries("http", "mismatch"): 1})

	tries := func(result string) map[string]float64 {
		return map[string]float64{"oncekeeper_inbox_tries_total{result=" + result + ",subscriber=invoices}": 1}
	}
	p.moves(t, "a message, at first", func() { p.deliver(t, "1", nil) }, tries("handled"))
	p.moves(t, "a message, again", func() { p.deliver(t, "1", nil) }, tries("duplicate"))
	p.moves(t, "a message that was not handled", func() { p.deliver(t, "2", oncekeeper.NotApplied(context.Canceled)) }, tries("failed"))
	p.moves(t, "a message that never will be", func() { p.deliver(t, "3", oncekeeper.Final(context.Canceled)) }, tries("final"))
	p.moves(t, "a message whose id is none", func() { p.deliver(t, " ", nil) }, tries("refused"))
}

func TestWhatRunsWhileTheServiceIsAwayIsSeenByGuardAndClient(t *testing.T) {
	p := begun(t)
	p.service.Down()
	p.moves(t, "a call that is let through", func() { p.timePasses(t, func() { p.refund(t, p.guarded, "1", "ch_1") }) }, map[string]float64{
		guardSeries("grpc", "ran"):                                     1,
		"oncekeeper_guard_outage_runs_total{guard=grpc,under=nothing}": 1,
		"oncekeeper_client_outage_runs_total{under=nothing}":           1,
	})
	p.moves(t, "a request that is not", func() { p.timePasses(t, func() { p.post(t, "1", "a") }) }, map[string]float64{guardSeries("http", "unavailable"): 1})
}

func TestWhateverCallersSendTheSeriesAreAsManyAsTheyWere(t *testing.T) {
	p := begun(t)
	before := slices.Sorted(maps.Keys(p.scrape(t)))
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		word := fmt.Sprintf("word-%d", rnd.IntN(150))
		p.tenant = fmt.Sprintf("tenant %d", rnd.Uint64())
		switch rnd.IntN(5) {
		case 0:
			p.refund(t, p.guarded, word, fmt.Sprint("ch_", rnd.IntN(2)))
		case 1:
			p.refund(t, p.outgoing, word, fmt.Sprint("ch_", rnd.IntN(2)))
		case 2:
			p.post(t, word, fmt.Sprint(rnd.IntN(2)))
		case 3:
			p.deliver(t, word, []error{nil, oncekeeper.Final(context.Canceled), oncekeeper.NotApplied(context.Canceled), context.Canceled}[rnd.IntN(4)])
		default:
			p.post(t, "", word)
		}
	}
	if after := slices.Sorted(maps.Keys(p.scrape(t))); !slices.Equal(after, before) {
		t.Errorf("seed %d: %d series became %d:\n%s", seed, len(before), len(after), strings.Join(after, "\n"))
	}
}

func TestEverySeriesIsAsItsDescriptionSays(t *testing.T) {
	p := begun(t)
	described := map[string]map[string]func(string) bool{}
	for _, section := range clientmetrics.Metrics() {
		for _, m := range section.Metrics {
			described[m.Name] = map[string]func(string) bool{}
			for _, l := range m.Labels {
				described[m.Name][l.Name] = l.Takes
			}
		}
	}
	families, err := p.numbers.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if len(m.GetLabel()) != len(described[f.GetName()]) {
				t.Errorf("%s has the labels %v, which its description has not", f.GetName(), m.GetLabel())
				continue
			}
			for _, l := range m.GetLabel() {
				if takes := described[f.GetName()][l.GetName()]; takes == nil || !takes(l.GetValue()) {
					t.Errorf("%s has %s=%q, which its description has not", f.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
		delete(described, f.GetName())
	}
	for name := range described {
		t.Errorf("%s is described, and a process with one of everything does not show it", name)
	}
}
