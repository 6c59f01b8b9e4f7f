package grpcguard

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
	"github.com/oncekeeper/oncekeeper/client/internal/callkey"
	"github.com/oncekeeper/oncekeeper/client/internal/methodoptions"
)

// method is how calls of one method are guarded, worked out at the start.
type method struct {
	operation string
	// keyField of the request is the key; empty: the metadata alone.
	keyField string
	required bool
	// request is what every call of the method asks for, but the key, the digest and
	// what depends on them.
	request client.Request
	digest  *fingerprint.Message
	// reply is the type of the method's response.
	reply     protoreflect.MessageType
	table     table
	reconcile Reconcile
}

func (cfg *Config) newMethod(m methodoptions.Method, changes Method, answers map[codes.Code]oncekeeper.Settlement) (*method, error) {
	if err := m.Guardable(); err != nil {
		return nil, err
	}
	options := m.Options
	if changes.Options != nil {
		options = changes.Options
	}
	ignore := options.GetFingerprintIgnore()
	if name := options.GetKeyField(); name != "" {
		if _, err := m.KeyField(name); err != nil {
			return nil, err
		}
		ignore = append(ignore[:len(ignore):len(ignore)], name)
	}
	digest, err := fingerprint.NewMessage(m.Descriptor.Input(), fingerprint.MessageConfig{Ignore: ignore})
	if err != nil {
		return nil, fmt.Errorf("%s: fingerprint_ignore: %w", m.Operation, err)
	}
	lease, err := optionDuration(m.Operation, "lease", options.GetLease())
	if err != nil {
		return nil, err
	}
	retention, err := optionDuration(m.Operation, "retention", options.GetRetention())
	if err != nil {
		return nil, err
	}
	if options.GetMaxAttempts() < 0 {
		return nil, fmt.Errorf("%s: max_attempts %d is below zero", m.Operation, options.GetMaxAttempts())
	}
	table, err := newTable(m.Operation, answers, changes)
	if err != nil {
		return nil, err
	}
	wait := cfg.Wait
	if changes.Wait != 0 {
		wait = changes.Wait
	}
	store := cfg.Receipts
	if changes.NoReceipts {
		store = nil
	}
	if changes.Outage > client.OutageOpen {
		return nil, fmt.Errorf("%s: %d is no outage mode", m.Operation, changes.Outage)
	}
	if changes.Outage == client.OutageReceiptsOnly && store == nil {
		return nil, fmt.Errorf("%s: outage mode %q needs Config.Receipts", m.Operation, changes.Outage)
	}
	return &method{
		operation: m.Operation, keyField: options.GetKeyField(), required: options.GetRequired(),
		request: client.Request{
			FingerprintScheme: fingerprint.SchemeProto,
			Lease:             lease, Retention: retention,
			Hold: options.GetHold(), MaxAttempts: options.GetMaxAttempts(),
			Wait: max(0, wait), MaxRunTime: changes.MaxRunTime,
			Receipts: store, Outage: changes.Outage,
			AnswerFirst: cfg.AnswerFirst && store != nil && !options.GetHold(),
		},
		digest: digest, reply: typeOf(m.Descriptor.Output()), table: table, reconcile: changes.Reconcile,
	}, nil
}

// keyPlace is how a refusal calls what carries the method's key.
func (m *method) keyPlace() string {
	if m.keyField != "" {
		return m.keyField
	}
	return callkey.Metadata
}

// optionDuration gives zero for unset, which is the policy's default.
func optionDuration(operation, name string, p *durationpb.Duration) (time.Duration, error) {
	if p == nil {
		return 0, nil
	}
	if err := p.CheckValid(); err != nil || p.AsDuration() <= 0 {
		return 0, fmt.Errorf("%s: %s is not above zero: leave it unset for the policy's default", operation, name)
	}
	return p.AsDuration(), nil
}

// typeOf gives the linked type, and where the message is known by its descriptor
// alone, a dynamic one.
func typeOf(message protoreflect.MessageDescriptor) protoreflect.MessageType {
	if linked, err := protoregistry.GlobalTypes.FindMessageByName(message.FullName()); err == nil && linked.Descriptor() == message {
		return linked
	}
	return dynamicpb.NewMessageType(message)
}
