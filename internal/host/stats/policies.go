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
	mu    sync.RWMutex
	flows map[policyFlow]*flowCounts
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
	f := p.get(policyFlow{o.Policy, o.Flow})
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
	f.codes[code]++
}

func (p *Policies) get(key policyFlow) *flowCounts {
	if f := p.find(key); f != nil {
		return f
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.flows[key]; f != nil {
		return f
	}
	if p.flows == nil {
		p.flows = make(map[policyFlow]*flowCounts)
	}
	f := &flowCounts{codes: make(map[string]int64)}
	p.flows[key] = f
	return f
}

func (p *Policies) find(key policyFlow) *flowCounts {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.flows[key]
}

// Retain drops the counts of policies that are not among members.
func (p *Policies) Retain(members []governance.Member) {
	names := make(map[string]bool, len(members))
	for _, m := range members {
		names[m.Spec.Name] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.flows, func(key policyFlow, _ *flowCounts) bool { return !names[key.policy] })
}

var flows = [...]governance.Flow{governance.Request, governance.Response}

// Calls returns the counts of a policy, request flow first.
func (p *Policies) Calls(policy string) []status.PolicyCalls {
	list := []status.PolicyCalls{}
	for _, flow := range flows {
		f := p.find(policyFlow{policy, flow})
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
		if f := p.find(policyFlow{policy, flow}); f != nil {
			list = append(list, status.PolicyMeasure{Policy: policy, Flow: flow, Decisions: f.took.Totals()})
		}
	}
	return list
}
