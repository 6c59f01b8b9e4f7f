package server_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

// people is a principals file; each one's token is "ok_" and their name.
func people(t *testing.T, lines ...string) *auth.Set {
	t.Helper()
	text := "principals:\n"
	for _, line := range lines {
		name, _, _ := strings.Cut(line, ",")
		text += fmt.Sprintf("  - {name: %s, token_sha256: %s}\n", line, auth.TokenDigest("ok_"+name))
	}
	set, err := auth.Parse("principals.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// guarded is a server that only principals may call.
type guarded struct {
	*operated
	live *auth.Live
}

// guard has a caller and an operator of each of acme and other, an operator of both,
// one of a pattern, and those of everything.
func guard(t *testing.T, on records) *guarded {
	t.Helper()
	live := auth.NewLive(people(t,
		"acme, role: caller, tenant: acme", "other, role: caller, tenant: other", "refunds, role: caller, tenant: acme, operation: refund.*",
		"acmeops, role: operator, tenant: acme", "bothops, role: operator, tenant: [acme, other]", "starops, role: operator, tenant: a*",
		"payops, role: operator, tenant: acme, operation: pay", "any, role: caller, tenant: '*'", "root, role: operator, tenant: '*'",
		"soon, role: caller, tenant: acme, expires: 2030-01-02T03:05:05Z",
	))
	return &guarded{live: live, operated: operate(t, on, func(cfg *server.Config) { cfg.Trust = &auth.Trust{Principals: live} })}
}

func onGuardedStores(t *testing.T, test func(t *testing.T, h *guarded)) {
	onEveryStore(t, func(t *testing.T, on records) { test(t, guard(t, on)) })
}

// as gives the context of a call by a principal.
func as(t *testing.T, name string) context.Context {
	return metadata.AppendToOutgoingContext(testContext(t), "authorization", "Bearer ok_"+name)
}

func of(tenant, id string) *pb.Key { return &pb.Key{Tenant: tenant, Operation: "pay", Id: id} }

// completed has a tenant's key completed.
func (h *guarded) completed(t *testing.T, tenant, id string) {
	t.Helper()
	res, err := h.Begin(as(t, "any"), &pb.BeginRequest{Key: of(tenant, id)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Complete(as(t, "any"), &pb.CompleteRequest{Key: of(tenant, id), FencingToken: res.GetGrant().GetFencingToken(), Response: &pb.StoredResponse{Body: []byte("paid")}})
	if err != nil {
		t.Fatal(err)
	}
}

// calls are one of every method, about a tenant's key.
func (h *guarded) calls(key *pb.Key) map[string]func(context.Context) error {
	reason := "because"
	return map[string]func(context.Context) error{
		"Begin": func(ctx context.Context) error { _, err := h.Begin(ctx, &pb.BeginRequest{Key: key}); return err },
		"Renew": func(ctx context.Context) error {
			_, err := h.Renew(ctx, &pb.RenewRequest{Key: key, FencingToken: 1})
			return err
		},
		"Complete": func(ctx context.Context) error {
			_, err := h.Complete(ctx, &pb.CompleteRequest{Key: key, FencingToken: 1})
			return err
		},
		"Fail": func(ctx context.Context) error {
			_, err := h.Fail(ctx, &pb.FailRequest{Key: key, FencingToken: 1, Disposition: pb.FailRequest_DISPOSITION_UNKNOWN})
			return err
		},
		"Get": func(ctx context.Context) error { _, err := h.Get(ctx, &pb.GetRequest{Key: key}); return err },
		"BatchBegin": func(ctx context.Context) error {
			res, err := h.BatchBegin(ctx, &pb.BatchBeginRequest{Requests: []*pb.BeginRequest{{Key: key}}})
			return firstOf(err, res.GetResults())
		},
		"BatchSettle": func(ctx context.Context) error {
			item := &pb.Settlement{Settlement: &pb.Settlement_Complete{Complete: &pb.CompleteRequest{Key: key, FencingToken: 1}}}
			res, err := h.BatchSettle(ctx, &pb.BatchSettleRequest{Settlements: []*pb.Settlement{item}})
			return firstOf(err, res.GetResults())
		},
		"ResolveRecord": func(ctx context.Context) error {
			release := &pb.ResolveRecordRequest_Release_{Release: &pb.ResolveRecordRequest_Release{}}
			_, err := h.ResolveRecord(ctx, &pb.ResolveRecordRequest{Key: key, Etag: "1-1", Reason: reason, Resolution: release})
			return err
		},
		"DeleteRecord": func(ctx context.Context) error {
			_, err := h.DeleteRecord(ctx, &pb.DeleteRecordRequest{Key: key, Etag: "1-1", Reason: reason})
			return err
		},
		"ListRecords": func(ctx context.Context) error {
			_, err := h.ListRecords(ctx, &pb.ListRecordsRequest{Tenant: key.GetTenant()})
			return err
		},
		"Sweep": func(ctx context.Context) error {
			_, err := h.Sweep(ctx, &pb.SweepRequest{Tenant: key.GetTenant()})
			return err
		},
		"Backup": func(ctx context.Context) error { _, err := h.Backup(ctx, &pb.BackupRequest{Name: "b"}); return err },
	}
}

// firstOf gives the error of a batch of one item.
func firstOf[R interface{ GetError() *pb.BatchError }](err error, results []R) error {
	if err != nil || len(results) != 1 || results[0].GetError() == nil {
		return err
	}
	return status.Error(codes.Code(results[0].GetError().GetCode()), results[0].GetError().GetMessage())
}

// told is all that a caller sees of an answer: the error, and its trailer.
func told(ctx context.Context, call func(context.Context) error) string {
	err := call(ctx)
	return fmt.Sprint(status.Code(err), status.Convert(err).Message(), status.Convert(err).Details())
}

// Every method there is, asked about another's key that exists and one that does
// not, answers the same: nothing is learned, and nothing replayed.
func TestAnothersKeyIsRefusedAlikeWhetherItExists(t *testing.T) {
	onGuardedStores(t, func(t *testing.T, h *guarded) {
		h.completed(t, "other", "there")
		there, none := h.calls(of("other", "there")), h.calls(of("other", "none"))
		methods := len(pb.IdempotencyService_ServiceDesc.Methods) + len(pb.AdminService_ServiceDesc.Methods)
		if len(there) != methods {
			t.Fatalf("%d methods are called here, and the services have %d", len(there), methods)
		}
		for name := range there {
			for _, who := range []string{"acme", "refunds", "acmeops", "starops", "soon"} {
				got, want := told(as(t, who), there[name]), told(as(t, who), none[name])
				if got != want || !strings.HasPrefix(got, codes.PermissionDenied.String()) {
					t.Errorf("%s by %s: a key that is there is answered %q, and one that is not %q", name, who, got, want)
				}
			}
		}
	})
}

func TestWhoMayIsLetThrough(t *testing.T) {
	onGuardedStores(t, func(t *testing.T, h *guarded) {
		h.completed(t, "acme", "1")
		for name, call := range h.calls(of("acme", "1")) {
			wants := map[string]bool{"acme": false, "acmeops": false, "root": false}
			_, admin := map[string]bool{"ResolveRecord": true, "DeleteRecord": true, "ListRecords": true, "Sweep": true}[name]
			switch {
			case name == "Get":
				wants["acme"], wants["acmeops"], wants["root"] = true, true, true
			case name == "Backup":
				wants["root"] = true
			case admin:
				wants["acmeops"], wants["root"] = true, true
			default:
				wants["acme"] = true
			}
			for who, want := range wants {
				if got := status.Code(call(as(t, who))) != codes.PermissionDenied; got != want {
					t.Errorf("%s by %s is let through: %v, want %v", name, who, got, want)
				}
			}
		}
	})
}

func TestWhomNobodyKnowsIsRefusedAndNoSecretIsTold(t *testing.T) {
	h := guard(t, onPebble(t))
	const secret = "ok_a-secret-nobody-may-see"
	bad := metadata.AppendToOutgoingContext(testContext(t), "authorization", "Bearer "+secret)
	for name, call := range h.calls(of("acme", "1")) {
		for who, ctx := range map[string]context.Context{"nobody": testContext(t), "a bad token": bad} {
			err := call(ctx)
			wantReason(t, err, codes.Unauthenticated, "UNAUTHENTICATED")
			if text := fmt.Sprint(err, status.Convert(err).Details()); strings.Contains(text, secret) {
				t.Errorf("%s by %s is told %s", name, who, text)
			}
		}
	}
	h.log.await(t, "the bearer token is no principal's")
	h.log.await(t, "the call shows neither a bearer token nor a certificate")
	if strings.Contains(h.log.String(), secret) || strings.Contains(h.log.String(), auth.TokenDigest(secret)) {
		t.Errorf("the log tells the token:\n%s", h.log)
	}
}

// A connection that was open before is no better than a new one.
func TestARevokedTokenAndAnExpiredPrincipalStopAtTheNextCall(t *testing.T) {
	h := guard(t, onPebble(t))
	get := func(who string) codes.Code {
		_, err := h.Get(as(t, who), &pb.GetRequest{Key: of("acme", "1")})
		return status.Code(err)
	}
	if got := []codes.Code{get("acme"), get("soon")}; !slices.Equal(got, []codes.Code{codes.NotFound, codes.NotFound}) {
		t.Fatalf("before, the calls are answered %v", got)
	}
	h.advance(time.Minute)
	h.live.Use(people(t, "soon, role: caller, tenant: acme, expires: 2030-01-02T03:05:05Z", "new, role: caller, tenant: acme"))
	if got := []codes.Code{get("acme"), get("soon"), get("new")}; !slices.Equal(got, []codes.Code{codes.Unauthenticated, codes.Unauthenticated, codes.NotFound}) {
		t.Errorf("after, the calls are answered %v", got)
	}
	h.log.await(t, "the principal soon expired at 2030-01-02T03:05:05Z")
}

func TestABatchIsJudgedItemByItem(t *testing.T) {
	onGuardedStores(t, func(t *testing.T, h *guarded) {
		h.completed(t, "other", "there")
		begins := &pb.BatchBeginRequest{}
		for _, key := range []*pb.Key{of("acme", "1"), of("other", "there"), of("other", "none"), of("acme", "2")} {
			begins.Requests = append(begins.Requests, &pb.BeginRequest{Key: key})
		}
		res, err := h.BatchBegin(as(t, "acme"), begins)
		if err != nil {
			t.Fatal(err)
		}
		settle, got := &pb.BatchSettleRequest{}, res.GetResults()
		for i, item := range got {
			token := item.GetResponse().GetGrant().GetFencingToken()
			if mine := i == 0 || i == 3; mine != (token > 0) || mine == (item.GetError().GetReason() == pb.ErrorReason_ERROR_REASON_PERMISSION_DENIED) {
				t.Errorf("item %d is answered %v", i, item)
			}
			settle.Settlements = append(settle.Settlements, &pb.Settlement{Settlement: &pb.Settlement_Complete{
				Complete: &pb.CompleteRequest{Key: begins.GetRequests()[i].GetKey(), FencingToken: max(1, token)},
			}})
		}
		if !proto.Equal(got[1], got[2]) {
			t.Errorf("a key that is there is answered %v, and one that is not %v", got[1], got[2])
		}
		done, err := h.BatchSettle(as(t, "acme"), settle)
		if err != nil {
			t.Fatal(err)
		}
		for i, item := range done.GetResults() {
			if mine := i == 0 || i == 3; mine != (item.GetExpireTime() != nil) || mine == (item.GetError().GetReason() == pb.ErrorReason_ERROR_REASON_PERMISSION_DENIED) {
				t.Errorf("settlement %d is answered %v", i, item)
			}
		}
	})
}

// listed gives the tenants that who is shown, page by page, and the tokens.
func (h *guarded) listed(t *testing.T, who string, req *pb.ListRecordsRequest) (tenants, tokens []string, err error) {
	t.Helper()
	for {
		page, err := h.ListRecords(as(t, who), req)
		if err != nil {
			return tenants, tokens, err
		}
		for _, rec := range page.GetRecords() {
			tenants = append(tenants, rec.GetKey().GetTenant())
		}
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			slices.Sort(tenants)
			return slices.Compact(tenants), tokens, nil
		}
		tokens = append(tokens, req.GetPageToken())
	}
}

func TestAnOperatorSeesItsTenantsAlone(t *testing.T) {
	onGuardedStores(t, func(t *testing.T, h *guarded) {
		for i, tenant := range []string{"other", "acme", "zeta", "acme", "aaa", "acme", "other"} {
			if _, err := h.Begin(as(t, "any"), &pb.BeginRequest{Key: of(tenant, fmt.Sprint(i))}); err != nil {
				t.Fatal(err)
			}
			h.advance(time.Millisecond)
		}
		pending := []pb.KeyRecord_State{pb.KeyRecord_STATE_PENDING}
		for _, order := range []pb.ListRecordsRequest_Order{pb.ListRecordsRequest_ORDER_KEY, pb.ListRecordsRequest_ORDER_AGE} {
			for _, c := range []struct {
				who, tenant string
				want        string
			}{
				{"acmeops", "", "[acme]"}, {"acmeops", "acme", "[acme]"}, {"payops", "", "[acme]"},
				{"bothops", "other", "[other]"}, {"starops", "aaa", "[aaa]"}, {"root", "", "[aaa acme other zeta]"},
				{"bothops", "", "InvalidArgument"}, {"starops", "", "InvalidArgument"},
				{"acmeops", "other", "PermissionDenied"}, {"starops", "other", "PermissionDenied"}, {"acme", "acme", "PermissionDenied"},
			} {
				req := &pb.ListRecordsRequest{Tenant: c.tenant, States: pending, Order: order, PageSize: 1}
				tenants, tokens, err := h.listed(t, c.who, req)
				got := fmt.Sprint(tenants)
				if err != nil {
					got = status.Code(err).String()
				}
				if got != c.want {
					t.Errorf("%v: %s lists %q and sees %s (%v), want %s", order, c.who, c.tenant, got, err, c.want)
				}
				for _, token := range tokens {
					if c.who != "root" && tellsOf(token, "zeta", "aaa", "other") && c.want == "[acme]" {
						t.Errorf("%v: a page token of %s tells of another's key", order, c.who)
					}
				}
			}
		}
		// A token that root was given is none of acme's.
		page, err := h.ListRecords(as(t, "root"), &pb.ListRecordsRequest{PageSize: 1, States: pending, Order: pb.ListRecordsRequest_ORDER_AGE})
		if err != nil {
			t.Fatal(err)
		}
		tenants, _, _ := h.listed(t, "acmeops", &pb.ListRecordsRequest{PageSize: 1, States: pending, Order: pb.ListRecordsRequest_ORDER_AGE, PageToken: page.GetNextPageToken()})
		if slices.ContainsFunc(tenants, func(tenant string) bool { return tenant != "acme" }) {
			t.Errorf("by another's page token acme sees %v", tenants)
		}
	})
}

// tellsOf reads a token in every way that it is encoded, one in the other.
func tellsOf(token string, names ...string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < 16 {
		return false
	}
	inner, _ := base64.RawURLEncoding.DecodeString(string(raw[16:]))
	return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(string(inner)+string(raw), name) })
}

func TestAnOperatorSweepsItsTenantsAlone(t *testing.T) {
	onGuardedStores(t, func(t *testing.T, h *guarded) {
		for _, tenant := range []string{"acme", "other", "zeta", "aaa"} {
			for i := range 2 {
				h.completed(t, tenant, fmt.Sprint(i))
			}
		}
		h.advance(48 * time.Hour)
		sweep := func(who, tenant string, most int32) string {
			res, err := h.Sweep(as(t, who), &pb.SweepRequest{Tenant: tenant, MaxRecords: most})
			if err != nil {
				return status.Code(err).String()
			}
			return fmt.Sprint(res.GetSwept(), res.GetMore())
		}
		for _, c := range []struct {
			who, tenant string
			most        int32
			want        string
		}{
			{"acme", "", 0, "PermissionDenied"},
			{"starops", "", 0, "InvalidArgument"},
			{"acmeops", "other", 0, "PermissionDenied"},
			{"payops", "", 1, "1 true"},
			{"bothops", "", 2, "2 true"},
			{"bothops", "", 0, "1 false"},
			{"starops", "aaa", 0, "2 false"},
			{"root", "", 0, "2 false"},
		} {
			if got := sweep(c.who, c.tenant, c.most); got != c.want {
				t.Errorf("%s sweeps %q: got %s, want %s", c.who, c.tenant, got, c.want)
			}
		}
		h.log.await(t, "principal=bothops records=2")
	})
}

func TestWhoDidItIsKeptWithTheRecord(t *testing.T) {
	onGuardedStores(t, func(t *testing.T, h *guarded) {
		key := of("acme", "1")
		for _, who := range []string{"acme", "any"} {
			batch, err := h.BatchBegin(as(t, who), &pb.BatchBeginRequest{Requests: []*pb.BeginRequest{{Key: key}}})
			if err != nil {
				t.Fatal(err)
			}
			token := batch.GetResults()[0].GetResponse().GetGrant().GetFencingToken()
			if _, err := h.Fail(as(t, who), &pb.FailRequest{Key: key, FencingToken: token, Disposition: pb.FailRequest_DISPOSITION_UNKNOWN}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := h.Get(as(t, "acmeops"), &pb.GetRequest{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.ResolveRecord(as(t, "acmeops"), &pb.ResolveRecordRequest{
			Key: key, Etag: got.GetRecord().GetEtag(), Reason: "so", Resolution: &pb.ResolveRecordRequest_Release_{Release: &pb.ResolveRecordRequest_Release{}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err = h.Get(as(t, "acme"), &pb.GetRequest{Key: key}); err != nil {
			t.Fatal(err)
		}
		var who []string
		for _, e := range got.GetRecord().GetHistory() {
			who = append(who, e.GetPrincipal())
		}
		if want := []string{"acme", "any", "acmeops"}; !slices.Equal(who, want) || got.GetRecord().GetPrincipal() != "any" {
			t.Errorf("it was %v, and %q last; want %v, and any", who, got.GetRecord().GetPrincipal(), want)
		}
		h.log.await(t, "principal=acmeops")
	})
}

func TestHealthIsForAllAndReflectionForPrincipals(t *testing.T) {
	h := guard(t, onPebble(t))
	if _, err := healthpb.NewHealthClient(h.conn).Check(testContext(t), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	watch, err := healthpb.NewHealthClient(h.conn).Watch(testContext(t), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Errorf("watching health: %v", err)
	}
	for who, want := range map[string]codes.Code{"": codes.Unauthenticated, "acme": codes.OK} {
		ctx := testContext(t)
		if who != "" {
			ctx = as(t, who)
		}
		if got := reflected(t, ctx, h.conn); got != want {
			t.Errorf("reflection for %q is answered %v, want %v", who, got, want)
		}
	}
}

func reflected(t *testing.T, ctx context.Context, conn *grpc.ClientConn) codes.Code {
	t.Helper()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	_, err = stream.Recv()
	return status.Code(err)
}
