package governance

import (
	"errors"
	"fmt"
	"reflect"
)

// Members makes the members of specs that are not disabled, in their order. The
// policy of a member of before is taken over, with its counts and buckets, by the
// spec that says the same of it: all but mode, required, priority and what is said for
// people. The others are built. The error names each spec that cannot be.
func Members(specs []Spec, before []Member, build func(Spec) (Policy, error)) ([]Member, error) {
	var members []Member
	var errs []error
	for _, s := range specs {
		if s.Normalize(); s.Disabled {
			continue
		}
		policy := policyOf(s, before)
		if policy == nil {
			var err error
			if policy, err = build(s); err != nil {
				errs = append(errs, fmt.Errorf("policy %s: %w", s.Name, err))
				continue
			}
		}
		m := Member{Spec: s, Policy: policy}
		m.normalize()
		members = append(members, m)
	}
	return members, errors.Join(errs...)
}

func policyOf(s Spec, members []Member) Policy {
	for _, m := range members {
		if m.Spec.Name == s.Name && reflect.DeepEqual(s.essence(), m.Spec.essence()) {
			return m.Policy
		}
	}
	return nil
}

// essence is s without what the pipeline alone minds.
func (s Spec) essence() Spec {
	s.Normalize()
	s.Required, s.Disabled, s.Mode, s.Priority = false, false, "", 0
	s.Description, s.Author, s.Namespace, s.Version, s.Tags = "", "", "", "", nil
	return s
}
