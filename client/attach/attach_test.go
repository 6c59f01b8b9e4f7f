package attach_test

import (
	"context"
	"errors"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/attach"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// service answers what it is told to, and remembers what it was sent.
type service struct {
	testservicev1.UnimplementedChargeServiceServer
	clock *clock.Manual

	mu      sync.Mutex
	answers []answer // the last one is given for good
	calls   []call
}

type answer struct {
	err     error
	trailer metadata.MD
}

type call struct {
	keys  []string
	field string
	at    time.Duration
}

func (s *service) answer(ctx context.Context, field string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	md, _ := metadata.FromIncomingContext(ctx)
	s.calls = append(s.calls, call{keys: md["idempotency-key"], field: field, at: s.clock.Monotonic()})
	if len(s.answers) == 0 {
		return nil
	}
	a := s.answers[min(len(s.calls), len(s.answers))-1]
	if err := grpc.SetTrailer(ctx, a.trailer); err != nil {
		return err
	}
	return a.err
}

func (s *service) seen() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *service) Charge(ctx context.Context, r *testservicev1.ChargeRequest) (*testservicev1.ChargeResponse, error) {
	return &testservicev1.ChargeResponse{Name: "charges/1"}, s.answer(ctx, r.GetRequestId())
}

func (s *service) Refund(ctx context.Context, _ *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
	return &testservicev1.RefundResponse{}, s.answer(ctx, "")
}

func (s *service) Capture(ctx context.Context, r *testservicev1.CaptureRequest) (*testservicev1.CaptureResponse, error) {
	return &testservicev1.CaptureResponse{}, s.answer(ctx, r.GetRequestId())
}

func (s *service) Look(ctx context.Context, _ *testservicev1.LookRequest) (*testservicev1.LookResponse, error) {
	return &testservicev1.LookResponse{}, s.answer(ctx, "")
}

// start serves s and gives a client whose interceptor counts on s's clock, which
// moves on by itself while something waits on it.
func start(t *testing.T, s *service, options ...attach.Option) testservicev1.ChargeServiceClient {
	t.Helper()
	s.clock = clock.NewManual(time.Now())
	interceptor := attach.UnaryClientInterceptor(append([]attach.Option{attach.WithClock(s.clock)}, options...)...)
	go func() {
		for s.clock.AwaitTimers(t.Context(), 1) == nil {
			s.clock.Advance(5 * time.Millisecond)
		}
	}()
	return dial(t, s, grpc.WithChainUnaryInterceptor(interceptor))
}

// dial serves s and gives a client of it.
func dial(t *testing.T, s *service, options ...grpc.DialOption) testservicev1.ChargeServiceClient {
	t.Helper()
	return dialServer(t, s, grpc.NewServer(), options...)
}

func dialServer(t *testing.T, s *service, server *grpc.Server, options ...grpc.DialOption) testservicev1.ChargeServiceClient {
	t.Helper()
	if s.clock == nil {
		s.clock = clock.NewManual(time.Now())
	}
	testservicev1.RegisterChargeServiceServer(server, s)
	listener := bufconn.Listen(1 << 16)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	conn, err := grpc.NewClient("passthrough:///bufconn", append([]grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return testservicev1.NewChargeServiceClient(conn)
}

const (
	charge = "testservice.v1.ChargeService/Charge"
	refund = "testservice.v1.ChargeService/Refund"
)

func refusal(t *testing.T, sentinel error, operation string, delay time.Duration) error {
	t.Helper()
	s, ok := oncekeeper.SentinelOf(sentinel)
	if !ok {
		t.Fatalf("%v is no sentinel", sentinel)
	}
	return wire.Status(s, operation, wire.Details{RetryDelay: delay}).Err()
}

var uuidv7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestACallThatNamesNoKeyIsGivenOneForAllItsAttempts(t *testing.T) {
	s := &service{answers: []answer{{err: refusal(t, oncekeeper.ErrInProgress, charge, time.Second)}, {err: refusal(t, oncekeeper.ErrInProgress, charge, time.Second)}, {}}}
	client := start(t, s)
	request := &testservicev1.ChargeRequest{Cents: 5}
	if _, err := client.Charge(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	calls := s.seen()
	if len(calls) != 3 {
		t.Fatalf("%d attempts, want 3", len(calls))
	}
	for n, c := range calls {
		if len(c.keys) != 1 || !uuidv7.MatchString(c.keys[0]) || c.keys[0] != calls[0].keys[0] {
			t.Errorf("attempt %d has keys %q, want one UUIDv7, that of attempt 0 %q", n, c.keys, calls[0].keys)
		}
		if c.field != c.keys[0] {
			t.Errorf("attempt %d has %q in its key field, want the key", n, c.field)
		}
	}
	if request.GetRequestId() != "" {
		t.Errorf("the caller's own request was changed: request_id = %q", request.GetRequestId())
	}
	if _, err := client.Charge(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if again := s.seen()[3].keys[0]; again == calls[0].keys[0] {
		t.Errorf("two calls have one key %q", again)
	}
}

func TestAKeyComesFromWhereTheCallerPutIt(t *testing.T) {
	inMetadata := func(ctx context.Context, keys ...string) context.Context {
		for _, k := range keys {
			ctx = metadata.AppendToOutgoingContext(ctx, "Idempotency-Key", k)
		}
		return ctx
	}
	type attempt func(context.Context, testservicev1.ChargeServiceClient) error
	charging := func(field string, options ...grpc.CallOption) attempt {
		return func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			_, err := c.Charge(ctx, &testservicev1.ChargeRequest{RequestId: field}, options...)
			return err
		}
	}
	capturing := func(field *string, options ...grpc.CallOption) attempt {
		return func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			_, err := c.Capture(ctx, &testservicev1.CaptureRequest{RequestId: field}, options...)
			return err
		}
	}
	looking := func(options ...grpc.CallOption) attempt {
		return func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			_, err := c.Look(ctx, &testservicev1.LookRequest{}, options...)
			return err
		}
	}
	const generated = "generated"
	for name, c := range map[string]struct {
		metadata []string
		call     attempt
		options  []attach.Option
		key      string // "": none is sent
		field    string
		refused  string // what INVALID_ARGUMENT says; "": the call is sent
	}{
		"a call option":                          {call: charging("", attach.Key("k")), key: "k", field: "k"},
		"the annotated field":                    {call: charging("k"), key: "k", field: "k"},
		"metadata of the caller":                 {call: charging(""), metadata: []string{"k"}, key: "k", field: "k"},
		"all three":                              {call: charging("k", attach.Key("k")), metadata: []string{"k"}, key: "k", field: "k"},
		"the same option twice":                  {call: charging("", attach.Key("k"), attach.Key("k")), key: "k", field: "k"},
		"an option on a method not annotated":    {call: looking(attach.Key("k")), key: "k"},
		"metadata on a method not annotated":     {call: looking(), metadata: []string{"k"}, key: "k"},
		"a method not annotated":                 {call: looking(), key: ""},
		"a selected method":                      {call: looking(), options: []attach.Option{attach.WithMethods(func(o string) bool { return strings.HasSuffix(o, "Service/Look") })}, key: generated},
		"a method that is not the selected one":  {call: looking(), options: []attach.Option{attach.WithMethods(func(o string) bool { return o == charge })}, key: ""},
		"an annotated method with no key field":  {call: capturing(nil), key: generated},
		"a configured field":                     {call: capturing(proto.String("k")), options: []attach.Option{attach.WithKeyField("/testservice.v1.ChargeService/Capture", "request_id")}, key: "k", field: "k"},
		"a configured field that is unset":       {call: capturing(nil), options: []attach.Option{attach.WithKeyField("testservice.v1.ChargeService/Capture", "request_id")}, key: generated, field: generated},
		"white space inside":                     {call: charging("", attach.Key("a b")), key: "a b", field: "a b"},
		"what metadata cannot carry, in a field": {call: charging("", attach.Key("é")), key: "", field: "é"},

		"what metadata cannot carry":              {call: capturing(nil, attach.Key("é")), refused: "idempotency-key: carries printable ASCII only"},
		"an empty option":                         {call: charging("", attach.Key("")), refused: "attach.Key: is empty"},
		"an empty option on any method":           {call: looking(attach.Key("")), refused: "attach.Key: is empty"},
		"empty metadata":                          {call: charging(""), metadata: []string{""}, refused: "idempotency-key: is empty"},
		"a field set to empty":                    {call: capturing(proto.String("")), options: []attach.Option{attach.WithKeyField("testservice.v1.ChargeService/Capture", "request_id")}, refused: "request_id: is empty"},
		"metadata twice":                          {call: charging(""), metadata: []string{"k", "k"}, refused: "idempotency-key: is sent more than once"},
		"two options that differ":                 {call: charging("", attach.Key("k"), attach.Key("other")), refused: "attach.Key: is given twice, and differs"},
		"an option and another key in the field":  {call: charging("other", attach.Key("k")), refused: "request_id: is another key than attach.Key"},
		"an option and another key in metadata":   {call: charging("", attach.Key("k")), metadata: []string{"other"}, refused: "idempotency-key: is another key than attach.Key"},
		"metadata and another key in the field":   {call: charging("other"), metadata: []string{"k"}, refused: "request_id: is another key than idempotency-key"},
		"keys that differ in the last byte alone": {call: charging("k1", attach.Key("k2")), refused: "request_id: is another key than attach.Key"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{}
			err := c.call(inMetadata(t.Context(), c.metadata...), start(t, s, c.options...))
			calls := s.seen()
			if c.refused != "" {
				if status.Code(err) != codes.InvalidArgument || !strings.HasSuffix(status.Convert(err).Message(), c.refused) || !errors.Is(err, oncekeeper.ErrInvalidRequest) {
					t.Errorf("error %v, want INVALID_ARGUMENT that says %q", err, c.refused)
				}
				if len(calls) != 0 {
					t.Errorf("%d calls reached the service, want none", len(calls))
				}
				return
			}
			if err != nil || len(calls) != 1 {
				t.Fatalf("%d calls reached the service, error %v; want one and none", len(calls), err)
			}
			got := calls[0]
			if c.key == generated && len(got.keys) == 1 && uuidv7.MatchString(got.keys[0]) {
				c.key = got.keys[0]
				if c.field == generated {
					c.field = c.key
				}
			}
			want := []string{c.key}
			if c.key == "" {
				want = nil
			}
			if !slices.Equal(got.keys, want) || got.field != c.field {
				t.Errorf("keys %q and field %q reached the service, want %q and %q", got.keys, got.field, want, c.field)
			}
		})
	}
}

func TestAMethodIsSelectedOnce(t *testing.T) {
	asked := 0
	client := start(t, &service{}, attach.WithMethods(func(string) bool { asked++; return true }))
	for range 3 {
		if _, err := client.Look(t.Context(), &testservicev1.LookRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 1 {
		t.Errorf("the selector was asked %d times for one operation, want once", asked)
	}
}

func TestAFieldThatIsNoKeyFieldIsAFaultOfTheProgram(t *testing.T) {
	s := &service{}
	client := start(t, s, attach.WithKeyField("testservice.v1.ChargeService/Look", "missing"))
	_, err := client.Look(t.Context(), &testservicev1.LookRequest{})
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "ChargeService/Look") {
		t.Errorf("error %v, want INTERNAL that names the method", err)
	}
	if calls := s.seen(); len(calls) != 0 {
		t.Errorf("%d calls reached the service, want none", len(calls))
	}
}
