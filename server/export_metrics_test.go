package server

import (
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/internal/answers"
)

// ResultNames gives every result that a call can be answered with.
func ResultNames() []string { return answers.Names() }

// CountEachAnswerOnce counts each result of each method once, about a key of no rule
// and about no key.
func (s *Server) CountEachAnswerOnce() {
	s.followPolicy()
	for place := range s.counts.Methods() {
		for v := range answers.Names() {
			for _, rule := range []string{ruleOf(s.policies.Current(), &pb.Key{Tenant: "acme", Operation: "pay"}), answers.NoRule} {
				s.counts.Count(place, rule, answers.Verdict(v))
			}
		}
	}
}
