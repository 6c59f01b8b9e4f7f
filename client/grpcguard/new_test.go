package grpcguard_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	optionsv1 "github.com/oncekeeper/oncekeeper/proto/oncekeeper/options/v1"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// answering is a connection on which every Begin is answered alike.
type answering struct{ begin *pb.BeginResponse }

func (a answering) Invoke(_ context.Context, method string, _, reply any, _ ...grpc.CallOption) error {
	if strings.HasSuffix(method, "/Begin") {
		proto.Merge(reply.(proto.Message), a.begin)
	}
	return nil
}

func (answering) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	panic("no stream is expected")
}

// granting is a connection on which every Begin is granted.
func granting() answering {
	return answering{&pb.BeginResponse{Result: &pb.BeginResponse_Grant{Grant: &pb.Grant{
		FencingToken: 1, AttemptNumber: 1, Lease: durationpb.New(time.Hour),
	}}}}
}

// filesWith gives the test service's file with Look changed by change.
func filesWith(t *testing.T, change func(look *descriptorpb.MethodDescriptorProto)) *protoregistry.Files {
	t.Helper()
	file := protodesc.ToFileDescriptorProto(testservicev1.File_testservice_v1_testservice_proto)
	for _, method := range file.GetService()[0].GetMethod() {
		if method.GetName() == "Look" {
			change(method)
		}
	}
	fd, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	var files protoregistry.Files
	if err := files.RegisterFile(fd); err != nil {
		t.Fatal(err)
	}
	return &files
}

func annotated(options *optionsv1.IdempotencyOptions) func(*descriptorpb.MethodDescriptorProto) {
	return func(look *descriptorpb.MethodDescriptorProto) {
		if look.Options == nil {
			look.Options = &descriptorpb.MethodOptions{}
		}
		proto.SetExtension(look.Options, optionsv1.E_Idempotency, options)
	}
}

// Case 20, where it can be refused at the start.
func TestNewRefusesWhatCannotBeGuardedAndNamesIt(t *testing.T) {
	keeper := client.New(answering{})
	stream := func(look *descriptorpb.MethodDescriptorProto) {
		annotated(&optionsv1.IdempotencyOptions{})(look)
		look.ServerStreaming = proto.Bool(true)
	}
	readOnly := func(look *descriptorpb.MethodDescriptorProto) {
		annotated(&optionsv1.IdempotencyOptions{})(look)
		look.Options.IdempotencyLevel = descriptorpb.MethodOptions_NO_SIDE_EFFECTS.Enum()
	}
	for name, c := range map[string]struct {
		keeper  *client.Client
		cfg     grpcguard.Config
		look    func(*descriptorpb.MethodDescriptorProto)
		methods map[string]grpcguard.Method
		says    []string
	}{
		"no keeper": {says: []string{"a client of Oncekeeper is required"}},
		"no tenant": {keeper: keeper, says: []string{"Config.Tenant is required"}},

		"a stream":                   {look: stream, says: []string{lookOp, "is a stream"}},
		"one with no side effects":   {look: readOnly, says: []string{lookOp, "NO_SIDE_EFFECTS"}},
		"a key field that is none":   {look: annotated(&optionsv1.IdempotencyOptions{KeyField: "request_id"}), says: []string{lookOp, `"request_id" is no field`}},
		"an ignore path to nowhere":  {look: annotated(&optionsv1.IdempotencyOptions{FingerprintIgnore: []string{"charge.nonce"}}), says: []string{lookOp, "charge.nonce"}},
		"a lease of nothing":         {look: annotated(&optionsv1.IdempotencyOptions{Lease: &durationpb.Duration{}}), says: []string{lookOp, "lease is not above zero"}},
		"a negative retention":       {look: annotated(&optionsv1.IdempotencyOptions{Retention: &durationpb.Duration{Seconds: -1}}), says: []string{lookOp, "retention is not above zero"}},
		"a malformed lease":          {look: annotated(&optionsv1.IdempotencyOptions{Lease: &durationpb.Duration{Seconds: 1, Nanos: -1}}), says: []string{lookOp, "lease is not above zero"}},
		"fewer attempts than none":   {look: annotated(&optionsv1.IdempotencyOptions{MaxAttempts: -1}), says: []string{lookOp, "max_attempts -1"}},
		"a name that is none":        {methods: map[string]grpcguard.Method{"testservice.v1.ChargeService/Missing": {}}, says: []string{"Missing"}},
		"one method by two names":    {methods: map[string]grpcguard.Method{captureOp: {}, "/" + captureOp: {Unguarded: true}}, says: []string{"twice", captureOp, `"/` + captureOp}},
		"a stream that is named":     {methods: map[string]grpcguard.Method{"testservice.v1.ChargeService/Watch": {}}, says: []string{"ChargeService/Watch", "is a stream"}},
		"OK in a table":              {methods: map[string]grpcguard.Method{lookOp: {Codes: map[codes.Code]oncekeeper.Settlement{codes.OK: final}}}, says: []string{lookOp, "OK is always kept"}},
		"a table without a meaning":  {methods: map[string]grpcguard.Method{lookOp: {TakeoverCodes: map[codes.Code]oncekeeper.Settlement{codes.Aborted: oncekeeper.SettledComplete}}}, says: []string{lookOp, "Aborted"}},
		"a header never replayed":    {cfg: grpcguard.Config{ReplayHeader: []string{"location", "Set-Cookie"}}, says: []string{"ReplayHeader", "Set-Cookie"}},
		"a trailer of gRPC's":        {cfg: grpcguard.Config{ReplayTrailer: []string{"grpc-status-details-bin"}}, says: []string{"ReplayTrailer", "grpc-status-details-bin"}},
		"credentials":                {cfg: grpcguard.Config{ReplayHeader: []string{"authorization"}}, says: []string{"authorization"}},
		"two faults, both are named": {look: stream, methods: map[string]grpcguard.Method{captureOp: {Options: &optionsv1.IdempotencyOptions{KeyField: "missing"}}}, says: []string{lookOp, captureOp}},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Methods = c.methods
			if name != "no tenant" && name != "no keeper" {
				c.keeper, c.cfg.Tenant = keeper, acme
			}
			if c.look != nil {
				c.cfg.Files = filesWith(t, c.look)
			}
			_, err := grpcguard.New(c.keeper, c.cfg)
			_, outgoing := grpcguard.NewOutgoing(c.keeper, grpcguard.OutgoingConfig{Config: c.cfg})
			for _, want := range c.says {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("New gives %v, want an error that says %q", err, want)
				}
				if outgoing == nil || !strings.Contains(outgoing.Error(), want) {
					t.Errorf("NewOutgoing gives %v, want an error that says %q", outgoing, want)
				}
			}
		})
	}
}

func TestAFaultOfAMethodThatIsNotGuardedStopsNobody(t *testing.T) {
	_, err := grpcguard.New(client.New(answering{}), grpcguard.Config{
		Tenant: acme, Methods: map[string]grpcguard.Method{lookOp: {Unguarded: true}},
		Files: filesWith(t, annotated(&optionsv1.IdempotencyOptions{KeyField: "missing"})),
	})
	if err != nil {
		t.Errorf("New gives %v, want none", err)
	}
}

func TestAMethodKnownByItsDescriptorAloneIsReplayed(t *testing.T) {
	files := filesWith(t, annotated(&optionsv1.IdempotencyOptions{}))
	k := startKeeper(t)
	guard, err := grpcguard.New(k.Client, grpcguard.Config{Tenant: acme, Files: files})
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for range 2 {
		response, err := guard.Unary()(incoming(t, "k"), &testservicev1.LookRequest{}, info(lookOp), func(context.Context, any) (any, error) {
			ran++
			return &testservicev1.LookResponse{Name: "charges/1"}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		m := response.(proto.Message).ProtoReflect()
		if got := m.Get(m.Descriptor().Fields().ByName(protoreflect.Name("name"))).String(); got != "charges/1" {
			t.Errorf("the answer reads as %q", got)
		}
	}
	if ran != 1 {
		t.Errorf("the handler ran %d times", ran)
	}
}

// Case 20.
func TestAStreamPassesIsCountedAndKeepsNothing(t *testing.T) {
	k, s := startKeeper(t), &service{}
	g := serve(t, k, s, grpcguard.Config{})
	for range 2 {
		stream, err := g.Watch(keyed(t, "k"), &testservicev1.WatchRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		mustBe(t, err, codes.Unavailable)
	}
	if s.runs() != 2 || k.seen("Begin") != 0 {
		t.Errorf("two streams ran %d times and asked Oncekeeper %d times, want twice and never", s.runs(), k.seen("Begin"))
	}
	if got := g.guard.Stats(); got != (grpcguard.Stats{Streams: 2}) {
		t.Errorf("counted %+v, want two streams", got)
	}
}
