package stats

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/status"
)

// Policies counts the decisions of policies. The zero value is ready to use.
type Policies struct {
	flows table[policyFlow, flowCounts]
}

type policyFlow struct {
	policy string
	flow   governance.Flow
}

type flowCounts struct {
	continued, rejected, errors, dropped, shadow atomic.Int64
	took                                         distribution

	mu    sync.Mutex
	codes map[string]int64 // at most maxCodes, and "other"
}

// maxCodes bounds the codes of a policy that are counted apart in one flow: a policy may make them up.
const maxCodes = 32

// Observe counts one decision.
func (p *Policies) Observe(o governance.Observation) {
	f := p.flows.get(policyFlow{o.Policy, o.Flow})
	switch o.Outcome {
	case governance.Continue:
		f.continued.Add(1)
	case governance.Rejected:
		f.rejected.Add(1)
	case governance.PluginError:
		f.errors.Add(1)
	case governance.Dropped:
		f.dropped.Add(1)
		return // the policy did not decide
	}
	f.took.Record(o.Latency)
	if o.Shadow && o.Action != governance.Allow {
		f.shadow.Add(1)
	}
	if o.Code != "" {
		f.rejectedWith(o.Code)
	}
}

func (f *flowCounts) rejectedWith(code string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.codes[code]; !known && len(f.codes) >= maxCodes {
		code = "other"
	}
	if f.codes == nil {
		f.codes = make(map[string]int64)
	}
	f.codes[code]++
}

// Retain drops the counts of policies that are not among members.
func (p *Policies) Retain(members []governance.Member) {
	names := make(map[string]bool, len(members))
	for _, m := range members {
		names[m.Spec.Name] = true
	}
	p.flows.remove(func(key policyFlow) bool { return !names[key.policy] })
}

var flows = [...]governance.Flow{governance.Request, governance.Response}

// Calls returns the counts of a policy, request flow first.
func (p *Policies) Calls(policy string) []status.PolicyCalls {
	list := []status.PolicyCalls{}
	for _, flow := range flows {
		f := p.flows.all()[policyFlow{policy, flow}]
		if f == nil {
			continue
		}
		c := status.PolicyCalls{
			Flow:     flow,
			Continue: f.continued.Load(),
			Rejected: f.rejected.Load(),
			Errors:   f.errors.Load(),
			Dropped:  f.dropped.Load(),
			Shadow:   f.shadow.Load(),
			Latency:  latencyOf(&f.took),
		}
		f.mu.Lock()
		c.Codes = maps.Clone(f.codes)
		f.mu.Unlock()
		list = append(list, c)
	}
	return list
}

// Measures returns the durations of a policy's decisions, request flow first.
func (p *Policies) Measures(policy string) (list []status.PolicyMeasure) {
	for _, flow := range flows {
		if f := p.flows.all()[policyFlow{policy, flow}]; f != nil {
			list = append(list, status.PolicyMeasure{Policy: policy, Flow: flow, Decisions: f.took.Totals()})
		}
	}
	return list
}
