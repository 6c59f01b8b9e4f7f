package grpcguard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/internal/methodoptions"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	optionsv1 "github.com/oncekeeper/oncekeeper/proto/oncekeeper/options/v1"
)

// DefaultWait is how long a call waits for another attempt of its key, unless
// told otherwise: long enough to answer most double clicks and hedged calls with
// one round trip, short enough that waiters do not gather in the server.
const DefaultWait = 500 * time.Millisecond

// Config is how calls are guarded. Tenant is required; the zero value of any
// other field is its default.
type Config struct {
	// Tenant says whose call it is, from what authentication left in the context:
	// 1 to 128 bytes. Two tenants' equal keys are two keys. Its error goes to the
	// caller as it is where it has a gRPC status, and as INTERNAL otherwise.
	Tenant func(ctx context.Context) (string, error)
	// Methods changes how methods are guarded, by operation
	// ("package.Service/Method", once, with or without a slash before it). One that
	// is named here is guarded, annotated or not.
	Methods map[string]Method
	// Wait bounds how long a call waits for another attempt before it is answered
	// IN_PROGRESS; its own deadline, less a little for the way back, bounds it too.
	// 0: DefaultWait. Negative: not at all.
	Wait time.Duration
	// ReplayHeader and ReplayTrailer name the metadata of an answer that is kept
	// and replayed with it: up to 64 entries and 16 KiB in all, the rest is left
	// out. Credentials, cookies, and what belongs to gRPC or to one connection
	// cannot be named.
	ReplayHeader, ReplayTrailer []string
	// Receipts is where handlers leave a receipt of their effect, by InTx of
	// client/receipt/pgxreceipt or sqlreceipt. What InTx gives is the method's own
	// response.
	Receipts receipt.Store
	// AnswerFirst answers with what a handler's InTx committed while the attempt is
	// being settled: the caller waits for one round trip to Oncekeeper, not for two. It
	// needs Receipts. Methods with hold, or with NoReceipts, are settled first, as all
	// else is that a handler's own InTx did not commit: see client.Request.AnswerFirst.
	// Whoever stops the server calls client.Client.Drain after it.
	AnswerFirst bool
	// InProgressUnavailable answers IN_PROGRESS as UNAVAILABLE rather than ABORTED,
	// for callers whose retry policy knows that code alone.
	InProgressUnavailable bool
	// Files are searched for methods. Default: protoregistry.GlobalFiles.
	Files *protoregistry.Files
	// Logger is told of what no caller can mend: a configuration that the service
	// refuses, a kept answer that does not fit the method any more. Default:
	// slog.Default().
	Logger *slog.Logger
}

// Method is how one method is guarded.
type Method struct {
	// Options stand in for the annotation of its proto. Nil: the annotation holds;
	// without one, the method is guarded by the metadata's key alone.
	Options *optionsv1.IdempotencyOptions
	// Codes says what a status code is settled as: SettledFinal (kept and
	// replayed), SettledRetryable (nothing was done) or SettledUnknown. OK cannot be
	// named. On a takeover without receipts NOT_FOUND, ALREADY_EXISTS and
	// FAILED_PRECONDITION stay unknown all the same: TakeoverCodes says otherwise.
	Codes map[codes.Code]oncekeeper.Settlement
	// TakeoverCodes is the same for attempts that took over, and wins there.
	TakeoverCodes map[codes.Code]oncekeeper.Settlement
	// Wait: see Config. 0: the Config's.
	Wait time.Duration
	// MaxRunTime ends the context of what is run. 0: client.DefaultMaxRunTime.
	MaxRunTime time.Duration
	// NoReceipts is for a method whose effect is not in a transaction of InTx, where
	// Config.Receipts are of others: a receipt that is not there would say of it that
	// nothing happened.
	NoReceipts bool
	// Outage is what to do where Oncekeeper gives no verdict. Default:
	// client.OutageClosed, which is UNAVAILABLE.
	Outage client.Outage
	// Reconcile is asked where nobody knows what became of an attempt.
	Reconcile Reconcile
	// Unguarded lets the method pass, whatever its proto says. Nothing is checked
	// of it.
	Unguarded bool
}

// Reconcile says whether the call that request and q name had its effect: see
// client.Reconcile. The method's response goes with client.Happened. An error, which
// is logged, is client.CannotTell.
type Reconcile func(ctx context.Context, q client.Question, request proto.Message) (client.Finding, proto.Message, error)

// ReceiptsTell is the Reconcile of a method whose whole effect is in the transaction
// of its InTx: see client.ReceiptsTell.
func ReceiptsTell(context.Context, client.Question, proto.Message) (client.Finding, proto.Message, error) {
	return client.DidNotHappen, nil, nil
}

// check gives what is wrong with cfg itself, and fills in the defaults.
func (cfg *Config) check(keeper *client.Client) error {
	if keeper == nil {
		return errors.New("grpcguard: a client of Oncekeeper is required")
	}
	if cfg.Tenant == nil {
		return errors.New("grpcguard: Config.Tenant is required: without it, one tenant could replay another's answers")
	}
	if cfg.AnswerFirst && cfg.Receipts == nil {
		return errors.New("grpcguard: Config.AnswerFirst needs Config.Receipts: without them, what was answered could be run again")
	}
	if cfg.Wait == 0 {
		cfg.Wait = DefaultWait
	}
	if cfg.Files == nil {
		cfg.Files = protoregistry.GlobalFiles
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	var inHeader, inTrailer error
	cfg.ReplayHeader, inHeader = readNames("ReplayHeader", cfg.ReplayHeader)
	cfg.ReplayTrailer, inTrailer = readNames("ReplayTrailer", cfg.ReplayTrailer)
	return errors.Join(inHeader, inTrailer)
}

// resolve gives how every guarded method is guarded, by full method name with
// its slash, or all that is wrong, naming each method.
func (cfg *Config) resolve(answers map[codes.Code]oncekeeper.Settlement) (map[string]*method, error) {
	found := map[string]methodoptions.Method{}
	for _, m := range methodoptions.Annotated(cfg.Files) {
		found[m.Operation] = m
	}
	var faults []error
	named := map[string]Method{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Methods)) {
		m, ok := methodoptions.Find(cfg.Files, name)
		if !ok {
			faults = append(faults, fmt.Errorf("grpcguard: Config.Methods names %q, which no linked proto has", name))
			continue
		}
		if _, twice := named[m.Operation]; twice {
			faults = append(faults, fmt.Errorf("grpcguard: Config.Methods names one method twice, as %q and with a slash before it, %q", m.Operation, "/"+m.Operation))
			continue
		}
		found[m.Operation], named[m.Operation] = m, cfg.Methods[name]
	}
	methods := map[string]*method{}
	for _, operation := range slices.Sorted(maps.Keys(found)) {
		if named[operation].Unguarded {
			continue
		}
		m, err := cfg.newMethod(found[operation], named[operation], answers)
		if err != nil {
			faults = append(faults, fmt.Errorf("grpcguard: %w", err))
			continue
		}
		methods["/"+operation] = m
	}
	return methods, errors.Join(faults...)
}
