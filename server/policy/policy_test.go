package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
)

func TestTheStricterOfCallerAndPolicyWins(t *testing.T) {
	p := Policy{
		Lease: 30 * time.Second, MaxLease: time.Minute,
		Retention: time.Hour, MaxRetention: 2 * time.Hour,
		UnsettledRetention: 24 * time.Hour, MaxAttempts: 3,
	}
	held := p
	held.Hold = true
	unlimited := p
	unlimited.MaxAttempts = 0
	for name, c := range map[string]struct {
		policy Policy
		ask    Ask
		want   oncekeeper.Grant
	}{
		"nothing asked":           {p, Ask{}, oncekeeper.Grant{Lease: 30 * time.Second, Retention: time.Hour, MaxAttempts: 3}},
		"within bounds":           {p, Ask{Lease: time.Second, Retention: time.Minute}, oncekeeper.Grant{Lease: time.Second, Retention: time.Minute, MaxAttempts: 3}},
		"at the bounds":           {p, Ask{Lease: time.Minute, Retention: 2 * time.Hour}, oncekeeper.Grant{Lease: time.Minute, Retention: 2 * time.Hour, MaxAttempts: 3}},
		"above the bounds":        {p, Ask{Lease: time.Hour, Retention: 3 * time.Hour}, oncekeeper.Grant{Lease: time.Minute, Retention: 2 * time.Hour, MaxAttempts: 3}},
		"fewer attempts":          {p, Ask{MaxAttempts: 2}, oncekeeper.Grant{Lease: 30 * time.Second, Retention: time.Hour, MaxAttempts: 2}},
		"more attempts":           {p, Ask{MaxAttempts: 9}, oncekeeper.Grant{Lease: 30 * time.Second, Retention: time.Hour, MaxAttempts: 3}},
		"attempts without limit":  {unlimited, Ask{MaxAttempts: 9}, oncekeeper.Grant{Lease: 30 * time.Second, Retention: time.Hour, MaxAttempts: 9}},
		"hold asked":              {p, Ask{Hold: true}, oncekeeper.Grant{Lease: 30 * time.Second, Retention: time.Hour, MaxAttempts: 3, Hold: true}},
		"hold of the policy":      {held, Ask{}, oncekeeper.Grant{Lease: 30 * time.Second, Retention: time.Hour, MaxAttempts: 3, Hold: true}},
		"less than a microsecond": {p, Ask{Lease: 1, Retention: 1001}, oncekeeper.Grant{Lease: time.Microsecond, Retention: 2 * time.Microsecond, MaxAttempts: 3}},
	} {
		c.want.UnsettledRetention = 24 * time.Hour
		if got := c.policy.Grant(c.ask); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestTheDefaultPolicyIsValidAndABadOneNamesEveryFault(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	err := Policy{Lease: time.Hour, MaxLease: time.Minute, Retention: -1, MaxWait: -1, MaxResponseBytes: 1 << 40, MaxAttempts: -1}.Validate()
	for _, want := range []string{"max_lease", "max_retention", "unsettled_retention", "max_wait", "max_response_bytes", "max_attempts"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}
