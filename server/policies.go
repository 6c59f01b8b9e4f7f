package server

import (
	"errors"
	"fmt"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/policy"
)

// policies gives what cfg names, or the built-in policy.
func (cfg *Config) policies() (policy.Source, error) {
	switch {
	case cfg.Policies != nil && cfg.Policy != nil:
		return nil, errors.New("server.Config: Policy and Policies are both set")
	case cfg.Policies != nil:
		return cfg.Policies, nil
	case cfg.Policy == nil:
		return policy.BuiltIn(), nil
	}
	set, err := policy.Uniform(*cfg.Policy)
	if err != nil {
		return nil, fmt.Errorf("server.Config: Policy: %w", err)
	}
	return set, nil
}

// policyOf gives what holds for a key now. A call asks once, and goes by it to its
// end.
func (s *Server) policyOf(key *pb.Key) policy.Policy {
	p, _ := s.policies.Current().For(key.GetTenant(), key.GetOperation())
	return p
}

// policiesOf gives what holds for each key of a batch, all by one set.
func (s *Server) policiesOf(keys []*pb.Key) []policy.Policy {
	set := s.policies.Current()
	each := make([]policy.Policy, len(keys))
	for i, key := range keys {
		each[i], _ = set.For(key.GetTenant(), key.GetOperation())
	}
	return each
}
