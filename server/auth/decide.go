package auth

import (
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// Role is what a principal is there for.
type Role string

// The roles. Neither may do what the other is for: who begins and settles keys does
// not decide them by hand, and an operator's every change has a reason in the key's
// history. Who needs both is two principals.
const (
	// Caller begins, renews and settles keys, and reads them.
	Caller Role = "caller"
	// Operator reads keys and uses AdminService.
	Operator Role = "operator"
)

// scope is what a call is about.
type scope uint8

const (
	// ofKey: one tenant and operation, which the call names.
	ofKey scope = iota + 1
	// ofMany: those that the call names, or all.
	ofMany
	// ofStore: every record, and the host that the server runs on.
	ofStore
)

// rule is what a call asks of a principal.
type rule struct {
	roles []Role
	of    scope
}

// rules has every method that asks for anything. One that is not here is nobody's.
var rules = map[string]rule{
	pb.IdempotencyService_Begin_FullMethodName:       {[]Role{Caller}, ofKey},
	pb.IdempotencyService_Renew_FullMethodName:       {[]Role{Caller}, ofKey},
	pb.IdempotencyService_Complete_FullMethodName:    {[]Role{Caller}, ofKey},
	pb.IdempotencyService_Fail_FullMethodName:        {[]Role{Caller}, ofKey},
	pb.IdempotencyService_Get_FullMethodName:         {[]Role{Caller, Operator}, ofKey},
	pb.IdempotencyService_BatchBegin_FullMethodName:  {[]Role{Caller}, ofKey}, // each item
	pb.IdempotencyService_BatchSettle_FullMethodName: {[]Role{Caller}, ofKey},
	pb.AdminService_Sweep_FullMethodName:             {[]Role{Operator}, ofMany},
	pb.AdminService_ListRecords_FullMethodName:       {[]Role{Operator}, ofMany},
	pb.AdminService_ResolveRecord_FullMethodName:     {[]Role{Operator}, ofKey},
	pb.AdminService_DeleteRecord_FullMethodName:      {[]Role{Operator}, ofKey},
	pb.AdminService_Backup_FullMethodName:            {[]Role{Operator}, ofStore},
}

// May says whether p may call a method, by its full name, about a key of tenant and
// operation. What a method of many keys leaves out stands for all, and so does what
// one that is about none gives.
//
// It looks at nothing else: the answer is the same whether there is such a key.
func (p *Principal) May(method, tenant, operation string) bool {
	r, known := rules[method]
	if !known || !p.has(r.roles) {
		return false
	}
	switch r.of {
	case ofKey:
		return p.tenants.Fits(tenant) && p.operations.Fits(operation)
	case ofMany:
		return within(p.tenants, tenant) && within(p.operations, operation)
	default:
		return within(p.tenants, "") && within(p.operations, "")
	}
}

// MayCall says whether p's role may call a method at all, about whatever key.
func (p *Principal) MayCall(method string) bool { return p.has(rules[method].roles) }

// Scope is a part of what a call of many keys is about; an empty name stands for all.
type Scope struct{ Tenant, Operation string }

// Scopes gives what p may do of a call that is about tenant and operation, an empty
// one of which stands for all that p may: as few scopes as there can be. It gives
// none where p may do nothing of it, and ok is false where p's patterns do not tell
// which names there are, so that the call has to name them.
func (p *Principal) Scopes(tenant, operation string) (all []Scope, ok bool) {
	tenants, operations := named(p.tenants, tenant), named(p.operations, operation)
	if tenants == nil || operations == nil {
		return nil, false
	}
	for _, t := range tenants {
		for _, o := range operations {
			if within(p.tenants, t) && within(p.operations, o) {
				all = append(all, Scope{t, o})
			}
		}
	}
	return all, true
}
