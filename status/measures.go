package status

import (
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/observe/latency"
	"github.com/exthost/exthost/protocol"
)

// Latency is how long calls of an extension took, without their wait for an instance,
// or how long decisions of a policy took, since the host was opened.
type Latency struct {
	P50 protocol.Duration `json:"p50_ms"` // median, within 7 %
	P95 protocol.Duration `json:"p95_ms"` // 95th percentile, within 7 %
}

// Durations is a count of durations, their sum and their distribution.
type Durations = latency.Totals

// Measures is the source of metrics: [Status], and the counts since the host was opened.
// The counts never fall while the host lives, except those of an extension that a reload
// removed and another added again.
type Measures struct {
	Status     Status
	Sessions   int                // MCP sessions that are attached
	Listeners  int                // of events
	Extensions []ExtensionMeasure // that run here, destinations, and the processes of policies
	Calls      []CallMeasure      // by tool and outcome; zero counts are left out
	Policies   []PolicyMeasure    // by policy and flow
	Points     []PointMeasure     // by hook point
	Hooks      []HookMeasure      // by point, extension and outcome
}

// ExtensionMeasure counts the events of one extension, or of a policy's process.
type ExtensionMeasure struct {
	ID             string // policy:NAME for a policy's process
	Calls          Durations
	Starts         Durations // from the spawn until the instance was ready
	Restarts       int64     // after a crash
	Sent, Received int64     // bytes of params and results
	Late           uint64    // answers to calls that nobody waited for any more
	Unknown        uint64    // answers to ids that were never sent
	Noise          uint64    // lines on stdout that were no frames
}

// CallMeasure counts the calls of a tool that ended in one way. Tool is "" for calls to a
// destination, whose tools are not in the catalog. Both Extension and Tool are "" for
// calls of unknown tools and of tools beyond the 4096th.
type CallMeasure struct {
	Extension, Tool string
	Outcome         Outcome
	Count           int64
}

// PolicyMeasure is how long a policy took for its decisions about one flow. Their
// outcomes are in [PolicyCalls].
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

// HookMeasure counts the runs of the handlers of one point, source and outcome.
type HookMeasure struct {
	Point     hooks.Point
	Extension string             // whose handlers they are; "" for the operator's and the program's
	Outcome   governance.Outcome // never Dropped
	Count     int64
}
