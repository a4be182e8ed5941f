package governance

import (
	"fmt"
	"slices"
	"strings"
)

// member is a policy in its place.
type member struct {
	spec   Spec
	policy Policy
	place  int  // of the category
	shadow bool // what it decides is recorded
	inert  bool // and has no effect
	later  queue
	warned throttle
}

func newMember(m Member) *member {
	place := slices.Index(Category("").Values(), string(m.Spec.Category))
	if place < 0 || m.Policy == nil {
		panic(fmt.Sprintf("governance: policy %q needs a category, one of %s, and a Policy", m.Spec.Name, strings.Join(Category("").Values(), ", ")))
	}
	shadow := m.Spec.Mode == ModeShadow
	return &member{spec: m.Spec, policy: m.Policy, place: place, shadow: shadow,
		inert: shadow || m.Spec.Category == Observability && !m.Spec.Required}
}

func (m *member) compare(other *member) int {
	if m.place != other.place {
		return m.place - other.place
	}
	if m.spec.Priority != other.spec.Priority {
		return m.spec.Priority - other.spec.Priority
	}
	return strings.Compare(m.spec.Name, other.spec.Name)
}

func (m *member) handles(flow Flow) bool {
	return len(m.spec.Flows) == 0 || slices.Contains(m.spec.Flows, flow)
}
