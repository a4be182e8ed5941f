package exthost

import (
	"cmp"
	"slices"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/supervisor"
)

// PolicyStatus is one policy's part of [Status].
type PolicyStatus struct {
	Name     string              `json:"name"`
	Category governance.Category `json:"category"`
	Kind     governance.Kind     `json:"kind"`
	Builtin  string              `json:"builtin,omitempty"` // which, for kind builtin
	Mode     governance.Mode     `json:"mode"`
	Required bool                `json:"required"`
	Flows    []governance.Flow   `json:"flows"`
	Priority int                 `json:"priority,omitempty"`
	State    string              `json:"state"`             // a supervisor state; ready for what has no process; disabled
	Reason   string              `json:"reason,omitempty"`  // for anything not ready
	Calls    []PolicyCalls       `json:"calls"`             // by flow; none before the first
	Process  *ExtensionStatus    `json:"process,omitempty"` // of kinds that have one
}

// policies are those of the pipeline in its order, then the disabled ones.
func (g *generation) policies() (list []PolicyStatus) {
	for _, m := range g.members {
		p := policyStatus(m.Spec)
		p.State, p.Calls = string(supervisor.Ready), g.oversight.stats.calls(m.Spec.Name)
		if o, ok := m.Policy.(officer); ok {
			process := o.x.describe()
			process.running(o.x)
			p.State, p.Reason, p.Process = process.State, process.Reason, &process
		}
		list = append(list, p)
	}
	slices.SortStableFunc(list, func(a, b PolicyStatus) int {
		order := governance.Category("").Values()
		return cmp.Or(slices.Index(order, string(a.Category))-slices.Index(order, string(b.Category)), a.Priority-b.Priority, cmp.Compare(a.Name, b.Name))
	})
	for _, s := range g.cfg.Plugins {
		if s.Disabled {
			p := policyStatus(s)
			p.State = StateDisabled
			list = append(list, p)
		}
	}
	return list
}

func policyStatus(s governance.Spec) PolicyStatus {
	s.Normalize()
	flows := s.Flows
	if len(flows) == 0 {
		flows = []governance.Flow{governance.Request, governance.Response}
	}
	return PolicyStatus{Name: s.Name, Category: s.Category, Kind: s.Kind, Builtin: s.Builtin, Mode: s.Mode, Required: s.Required,
		Flows: flows, Priority: s.Priority}
}
