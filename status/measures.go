package status

import (
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/protocol"
)

// Latency is the duration of an extension's calls, without waiting for an instance, or of a policy's decisions,
// since the host was opened.
type Latency struct {
	P50 protocol.Duration `json:"p50_ms"` // median, within 7 %
	P95 protocol.Duration `json:"p95_ms"` // 95th percentile, within 7 %
}

// Durations is the count, sum and distribution of durations.
type Durations struct {
	Count uint64
	Sum   time.Duration
	// number of durations below the key, which is 128 µs, 256 µs and so on up to 134 s; exact to a microsecond
	Below map[time.Duration]uint64
}

// Measures is the source of metrics: [Status] and counts since the host was opened. Counts never decrease while
// the host runs, except for an extension that a reload removed and another added again.
type Measures struct {
	Status     Status
	Sessions   int                // attached MCP sessions
	Listeners  int                // listeners to events
	Extensions []ExtensionMeasure // local extensions, destinations, and processes of policies
	Calls      []CallMeasure      // by tool and outcome, without zero counts
	Policies   []PolicyMeasure    // by policy and flow
	Points     []PointMeasure     // by hook point
	Hooks      []HookMeasure      // by point, extension and outcome
}

// ExtensionMeasure counts events of an extension, or of a policy's process.
type ExtensionMeasure struct {
	ID             string // policy:NAME for a policy's process
	Calls          Durations
	Starts         Durations // from spawn to ready
	Restarts       int64     // after a crash
	Sent, Received int64     // bytes of params and results
	Late           uint64    // responses to abandoned calls
	Unknown        uint64    // responses with unknown ids
	Noise          uint64    // lines on stdout that were no frames
}

// CallMeasure counts a tool's calls with one outcome. Tool is "" for calls to a destination, whose tools are not
// in the catalog. Extension and Tool are "" for calls of unknown tools and of tools beyond the 4096th.
type CallMeasure struct {
	Extension, Tool string
	Outcome         Outcome
	Count           int64
}

// PolicyMeasure is the duration of a policy's decisions about one flow. Their outcomes are in [PolicyCalls].
type PolicyMeasure struct {
	Policy    string
	Flow      governance.Flow
	Decisions Durations
}

// PointMeasure is the duration of a hook point's handlers.
type PointMeasure struct {
	Point hooks.Point
	Runs  Durations
}

// HookMeasure counts runs of handlers by point, source and outcome.
type HookMeasure struct {
	Point     hooks.Point
	Extension string             // owner of the handlers; "" for the operator and the program
	Outcome   governance.Outcome // never Dropped
	Count     int64
}
