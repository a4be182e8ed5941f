package governance

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// member is a policy at its position in the pipeline.
type member struct {
	spec     Spec
	policy   Policy
	shadowed bool   // decisions are recorded without effect: mode shadow, or an observer that is not required
	usual    []Step // of allowed exchanges, by flow; apart, so that traces do not keep the policy in memory
	later    queue  // jobs of a detached observer
	warned   throttle
}

func newMember(m Member) *member {
	if !slices.Contains(Category("").Values(), string(m.Spec.Category)) || m.Policy == nil {
		panic(fmt.Sprintf("governance: policy %q needs a category, one of %s, and a Policy", m.Spec.Name,
			strings.Join(Category("").Values(), ", ")))
	}
	var usual []Step
	for _, flow := range []Flow{Request, Response} {
		usual = append(usual, Step{Policy: m.Spec.Name, Category: m.Spec.Category, Flow: flow, Outcome: Continue})
	}
	return &member{
		spec:     m.Spec,
		policy:   m.Policy,
		shadowed: m.Spec.Mode == ModeShadow || m.Spec.Category == Observability && !*m.Spec.Required,
		usual:    usual,
	}
}

// required reports whether an exchange fails when m cannot decide.
func (m *member) required() bool { return *m.spec.Required }

// Order compares the places of two policies in a pipeline: by category, layer, priority and
// name.
func (s *Spec) Order(other *Spec) int {
	categories := Category("").Values()
	return cmp.Or(cmp.Compare(slices.Index(categories, string(s.Category)),
		slices.Index(categories, string(other.Category))),
		cmp.Compare(s.Layer, other.Layer), cmp.Compare(s.Priority, other.Priority), strings.Compare(s.Name, other.Name))
}

func (m *member) handles(flow Flow) bool {
	return len(m.spec.Flows) == 0 || slices.Contains(m.spec.Flows, flow)
}

// Members builds the members of the specs that are not disabled, in the order of specs. If a policy
// in before has the same spec, except for mode, required, priority, layer and descriptive fields,
// Members reuses it with its counters. The error names every spec that cannot be built.
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
		if m.Spec.Name == s.Name && reflect.DeepEqual(s.identity(), m.Spec.identity()) {
			return m.Policy
		}
	}
	return nil
}

// identity returns s without the fields that only the pipeline reads.
func (s Spec) identity() Spec {
	s.Normalize()
	s.Required, s.Disabled, s.Mode, s.Priority, s.Layer = nil, false, "", 0, 0
	s.Description, s.Author, s.Namespace, s.Version, s.Tags = "", "", "", "", nil
	return s
}
