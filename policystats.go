package exthost

import (
	"iter"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/latency"
)

// PolicyCalls is what a policy has decided about one flow since the host was
// opened, or since the policy was last new. Its keys are fit for metrics: names of
// policies and codes are few.
type PolicyCalls struct {
	Flow     governance.Flow  `json:"flow"`
	Continue int64            `json:"continue"`
	Rejected int64            `json:"rejected"`
	Errors   int64            `json:"plugin_error"`      // it could not decide
	Dropped  int64            `json:"dropped"`           // of an observer that had too much to do
	Shadow   int64            `json:"shadow"`            // of those that continued: it would have decided otherwise, if it counted
	Codes    map[string]int64 `json:"codes,omitempty"`   // of what it rejected or would have, by code; see [governance.BoundedCode]
	Latency  *Latency         `json:"latency,omitempty"` // nil before the first
}

// policyStats counts what policies decide. Its zero value is ready.
type policyStats struct {
	mu    sync.RWMutex
	flows map[policyFlow]*flowStats
}

type policyFlow struct {
	policy string
	flow   governance.Flow
}

type flowStats struct {
	went, rejected, errors, dropped, shadow atomic.Int64
	took                                    latency.Histogram

	mu    sync.Mutex
	codes map[string]int64
}

// observe counts one step.
func (s *policyStats) observe(o governance.Observation) {
	f := s.of(policyFlow{o.Policy, o.Flow})
	switch o.Outcome {
	case governance.Continue:
		f.went.Add(1)
	case governance.Rejected:
		f.rejected.Add(1)
	case governance.PluginError:
		f.errors.Add(1)
	case governance.Dropped:
		f.dropped.Add(1)
		return // it was not asked
	}
	f.took.Record(o.Latency)
	if o.Shadow && o.Action != governance.Allow {
		f.shadow.Add(1)
	}
	if o.Code != "" {
		f.mu.Lock()
		f.codes[o.Code]++
		f.mu.Unlock()
	}
}

func (s *policyStats) of(key policyFlow) *flowStats {
	s.mu.RLock()
	f := s.flows[key]
	s.mu.RUnlock()
	if f != nil {
		return f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.flows[key]; f != nil {
		return f
	}
	if s.flows == nil {
		s.flows = make(map[policyFlow]*flowStats)
	}
	f = &flowStats{codes: make(map[string]int64)}
	s.flows[key] = f
	return f
}

// keep forgets the policies that are not among members.
func (s *policyStats) keep(members []governance.Member) {
	names := make(map[string]bool, len(members))
	for _, m := range members {
		names[m.Spec.Name] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.flows, func(key policyFlow, _ *flowStats) bool { return !names[key.policy] })
}

// calls returns what is known of the policy, by the flows in their order.
func (s *policyStats) calls(policy string) []PolicyCalls {
	list := []PolicyCalls{}
	for flow, f := range s.flowsOf(policy) {
		c := PolicyCalls{Flow: flow, Continue: f.went.Load(), Rejected: f.rejected.Load(), Errors: f.errors.Load(), Dropped: f.dropped.Load(),
			Shadow: f.shadow.Load(), Latency: latencyOf(&f.took)}
		f.mu.Lock()
		c.Codes = maps.Clone(f.codes)
		f.mu.Unlock()
		list = append(list, c)
	}
	return list
}

// flowsOf yields what is kept of the policy, by the flows in their order.
func (s *policyStats) flowsOf(policy string) iter.Seq2[governance.Flow, *flowStats] {
	return func(yield func(governance.Flow, *flowStats) bool) {
		for _, flow := range []governance.Flow{governance.Request, governance.Response} {
			s.mu.RLock()
			f := s.flows[policyFlow{policy, flow}]
			s.mu.RUnlock()
			if f != nil && !yield(flow, f) {
				return
			}
		}
	}
}
