package attach

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
	"github.com/oncekeeper/oncekeeper/client/internal/downstream"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// Errors of calls made inside an attempt, and of DeriveKey. Calls give them as
// INTERNAL: they are faults of the program, no guard keeps them as an answer, and
// nothing was sent.
var (
	// ErrAtOnce: two equal calls were made at once inside one attempt. The next
	// attempt could not tell which of their keys was whose.
	ErrAtOnce = downstream.ErrAtOnce
	// ErrStep: a step has no name, or one that is not UTF-8.
	ErrStep = downstream.ErrStep
	// ErrNoAttempt: the context is neither a guarded handler's nor that of a function
	// given to client.Do. What runs unguarded has no key to derive one from.
	ErrNoAttempt = downstream.ErrNoAttempt
)

// Step names the step of an attempt ("debit") that the call made with the context
// is: its key is derived from the attempt's key, the called method and this name,
// and is the same on every attempt. Give the context to that one call.
//
// The call gets a key whether its method is annotated or not. Two calls of one
// method and step at once are refused with ErrAtOnce. One after the other they have
// the same key: a guard gives the second the first one's answer, and refuses it,
// as oncekeeper.ErrFingerprintMismatch, where its request is another one.
//
// Outside an attempt, and for a call whose key is named in another way, it does
// nothing; a client.Do inside the attempt is an attempt of its own, with steps of
// its own.
func Step(ctx context.Context, name string) context.Context { return downstream.WithStep(ctx, name) }

// DeriveKey gives a key for what goes out by other means than this package (the
// SDK of a payment service, say): derived from the attempt's key and the step's
// name, and the same on every attempt. It is 44 characters of a-z, 0-9 and "-".
// Each step of an attempt is to have its own name; whether two calls with one key
// agree is for whoever is called to judge. Errors: ErrNoAttempt, ErrStep.
func DeriveKey(ctx context.Context, step string) (string, error) { return downstream.Derive(ctx, step) }

// derive gives the call of an attempt that ctx is of; nil outside one, and for a
// method that is to have no key.
func (m *method) derive(ctx context.Context, request any) (*downstream.Call, error) {
	if _, named := downstream.StepOf(ctx); !named && !m.keyed {
		return nil, nil
	}
	call, err := downstream.Begin(ctx, m.operation, func() (fingerprint.Fingerprint, error) { return m.fingerprint(request) })
	if err != nil {
		return nil, &programError{operation: m.operation, err: err}
	}
	return call, nil
}

// fingerprint digests as a guard of the method does.
func (m *method) fingerprint(request any) (fingerprint.Fingerprint, error) {
	message, ok := request.(proto.Message)
	if !ok {
		return fingerprint.Fingerprint{}, errors.New("attach: the request is no protobuf message, by which equal calls are told: name the step by attach.Step")
	}
	return fingerprint.Proto(message, m.ignore...)
}

// outcomeKnown says whether err, of a whole call, tells what became of it, whichever
// attempt of the called method said so. Three codes that guards keep are missing
// here: NOT_FOUND, ALREADY_EXISTS and FAILED_PRECONDITION, of one that took over,
// may be the doing of the attempt before it.
func outcomeKnown(operation string, err error) bool {
	if err == nil {
		return true
	}
	var ours *wire.Error
	if errors.As(err, &ours) {
		return errors.Is(ours, oncekeeper.ErrResponseNotKept) && ours.Operation == operation
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.OutOfRange, codes.DataLoss:
		return true
	default:
		return false
	}
}

// programError is a fault of the calling program, as INTERNAL.
type programError struct {
	operation string
	err       error
}

func (e *programError) Error() string { return e.operation + ": " + e.err.Error() }
func (e *programError) Unwrap() error { return e.err }
func (e *programError) GRPCStatus() *status.Status {
	return status.New(codes.Internal, e.Error())
}
