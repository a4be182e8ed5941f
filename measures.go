package exthost

import (
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/latency"
	"github.com/exthost/exthost/runtime"
)

// Measures is what metrics are made of: [Status], and what has been counted since
// the host was opened. Its numbers never fall while the host lives, but for those
// of an extension that a reload has removed and added again.
type Measures struct {
	Status     Status             // as [Admin.Status] has it
	Sessions   int                // MCP sessions that are attached
	Listeners  int                // of [Admin.Events]
	Extensions []ExtensionMeasure // that run here, destinations, and the processes of policies
	Calls      []CallMeasure      // by tool and outcome, only those that there were
	Policies   []PolicyMeasure    // by policy and flow
	Points     []PointMeasure     // by point
	Hooks      []HookMeasure      // by all that tells them apart
}

// ExtensionMeasure is what was counted of one extension, or of a policy's process.
type ExtensionMeasure struct {
	ID             string // policy:NAME for a policy's process
	Calls          Durations
	Starts         Durations // from the spawn until it could be called
	Restarts       int64     // after it had died
	Sent, Received int64     // bytes of params and results
	Late           uint64    // answers to calls that nobody waited for any more
	Unknown        uint64    // answers to ids never sent
	Noise          uint64    // lines on stdout that were no frames
}

// Durations is how long things took.
type Durations = latency.Totals

// CallMeasure is how many calls of a tool ended in one way. Tool is "" for those of a
// destination, whose tools are not in the catalog; so is Extension for calls of what
// there is not, and of tools beyond the 4096th.
type CallMeasure struct {
	Extension, Tool string
	Outcome         Outcome
	Count           int64
}

// PolicyMeasure is how long a policy took for its decisions about one flow. How they
// went is in [Status].
type PolicyMeasure struct {
	Policy    string
	Flow      governance.Flow
	Decisions Durations
}

// PointMeasure is how long the handlers of a hook point took.
type PointMeasure struct {
	Point hooks.Point
	Runs  Durations
}

// HookMeasure is how often the handlers of a hook did the same.
type HookMeasure struct {
	Point     hooks.Point
	Extension string             // whose they are; "" for the operator's and the program's
	Outcome   governance.Outcome // never Dropped
	Count     int64
}

// Measures returns what has been counted so far.
func (a Admin) Measures() Measures {
	h := a.h
	m := Measures{Status: a.Status(), Listeners: h.feed.Readers()}
	h.mu.Lock()
	m.Sessions = len(h.sessions)
	h.mu.Unlock()
	g := h.gen.Load()
	for _, x := range g.everyone() {
		m.Extensions = append(m.Extensions, x.measure())
	}
	for key, counts := range h.tally.tools.all() {
		for i, outcome := range outcomes {
			if n := counts[i].Load(); n > 0 {
				m.Calls = append(m.Calls, CallMeasure{key.extension, key.tool, outcome, n})
			}
		}
	}
	for _, p := range m.Status.Policies {
		for flow, stats := range h.oversight.stats.flowsOf(p.Name) {
			m.Policies = append(m.Policies, PolicyMeasure{p.Name, flow, stats.took.Totals()})
		}
	}
	for key, n := range h.tally.hooks.all() {
		m.Hooks = append(m.Hooks, HookMeasure{key.point, key.extension, key.outcome, n.Load()})
	}
	for point, took := range h.tally.points.all() {
		m.Points = append(m.Points, PointMeasure{point, took.Totals()})
	}
	return m
}

// measure adds what the instances that run have counted to what those have that
// ended; an instance is one of the two at any time.
func (x *extension) measure() ExtensionMeasure {
	c := x.calls
	m := ExtensionMeasure{
		ID: x.candidate.ID, Calls: c.took.totals(), Starts: c.started.totals(), Restarts: c.restarts.Load(),
		Sent: c.sent.Load(), Received: c.received.Load(),
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	m.Late, m.Unknown, m.Noise = c.late.Load(), c.unknown.Load(), c.noise.Load()
	for i := range x.instances {
		m.add(i.Info())
	}
	return m
}

func (m *ExtensionMeasure) add(i runtime.Info) {
	m.Late += i.Late
	m.Unknown += i.Unknown
	m.Noise += i.Noise
}
