package governance

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/protocol"
)

// Outcome is the result of asking one policy about one flow. The set is closed, so it can
// be a metric's label.
type Outcome string

// The outcomes.
const (
	Continue    Outcome = "continue"     // the exchange went on
	Rejected    Outcome = "rejected"     // the policy ended it
	PluginError Outcome = "plugin_error" // the policy could not decide
	Dropped     Outcome = "dropped"      // the queue of a detached observer was full
)

// Step is one policy's decision about one flow of an exchange.
type Step struct {
	Policy   string   `json:"policy"`
	Category Category `json:"category"`
	Flow     Flow     `json:"flow"`
	Again    bool     `json:"again,omitempty"` // about a change by a hook or a content policy
	Outcome  Outcome  `json:"outcome"`
	Action   Action   `json:"action,omitempty"` // the policy's decision
	// the decision had no effect: shadow mode, or not allowed in the category
	Ignored bool   `json:"ignored,omitempty"`
	Code    string `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"` // at most 512 bytes
	By      string `json:"by,omitempty"`     // the person who answered an approval request
	// where that person was asked, client or operator, and how long the answer took
	Where   protocol.Where    `json:"where,omitempty"`
	After   protocol.Duration `json:"answered_after_ms,omitempty"`
	Latency protocol.Duration `json:"latency_ms"` // without waiting for a person
}

// Trace explains the outcome of one exchange. It holds no payload.
type Trace struct {
	ID        string            `json:"id"`
	Time      time.Time         `json:"time"`
	Method    string            `json:"method"`
	Caller    string            `json:"caller,omitempty"`
	Session   string            `json:"session,omitempty"`
	Node      string            `json:"node,omitempty"`   // the cluster node of the caller; "" for this host
	Origin    string            `json:"origin,omitempty"` // the id of the decision at Node; "" for none
	Extension string            `json:"extension,omitempty"`
	Tool      string            `json:"tool,omitempty"`
	Direction string            `json:"direction"`
	Notify    bool              `json:"notify,omitempty"`
	Sent      bool              `json:"sent"` // the request was sent
	Took      protocol.Duration `json:"took_ms"`
	Verdict   Verdict           `json:"verdict,omitzero"`
	Failure   string            `json:"failure,omitempty"` // the kind of the error
	Steps     []Step            `json:"steps"`             // in order of completion
}

// Observation is one step, for metrics.
type Observation struct {
	Policy   string
	Category Category
	Flow     Flow
	Outcome  Outcome
	Code     string // of the denial; see [BoundedCode]
	Shadow   bool   // the policy is in shadow mode: Action had no effect
	Action   Action
	Latency  time.Duration
}

// record is a trace under construction. Detached observers may add steps after the exchange
// has ended.
type record struct {
	mu    sync.Mutex
	trace Trace   // without steps
	steps []entry // in order of completion
}

// entry is a step of a record. Its Step has no latency, so that the records of most exchanges share the steps of a
// policy.
type entry struct {
	*Step
	latency protocol.Duration
}

func newRecord(x *Exchange, now time.Time, steps int) *record {
	return &record{trace: Trace{
		ID:        x.ID,
		Time:      now,
		Method:    x.Method,
		Caller:    x.Caller,
		Session:   x.Session,
		Node:      x.Node,
		Origin:    prefix(x.Origin, maxCode),
		Extension: x.Extension,
		Tool:      x.Tool,
		Direction: x.Direction(),
		Notify:    x.Notify,
	}, steps: make([]entry, 0, steps)}
}

const (
	maxReason = 512 // bytes of the reason of a step
	maxCode   = 256 // bytes of the code of a decision
)

// prefix returns a copy of at most n bytes of s, so that a longer s is not kept in memory.
func prefix(s string, n int) string { return strings.Clone(display.Prefix(s, n)) }

// add adds a step. It shares one of usual if s differs from that in its latency alone.
func (r *record) add(s Step, usual []Step) {
	e := entry{latency: s.Latency}
	s.Latency = 0
	if i := slices.Index(usual, s); i >= 0 {
		e.Step = &usual[i]
	} else {
		own := s
		own.Reason = prefix(s.Reason, maxReason)
		e.Step = &own
	}
	r.mu.Lock()
	r.steps = append(r.steps, e)
	r.mu.Unlock()
}

func (r *record) end(x *Exchange, sent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace.Took, r.trace.Verdict, r.trace.Sent = protocol.Duration(time.Since(r.trace.Time)), x.Verdict, sent
	if x.Failure != nil {
		r.trace.Failure = string(x.Failure.Kind)
	}
}

func (r *record) snapshot() Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.trace
	t.Steps = make([]Step, len(r.steps))
	for i, e := range r.steps {
		t.Steps[i] = *e.Step
		t.Steps[i].Latency = e.latency
	}
	return t
}

// Traces keeps the latest traces. The pipelines of one host share one Traces. Its methods are safe
// for concurrent use.
type Traces struct {
	mu   sync.Mutex
	ring []*record
	next int // index of the next trace
}

// NewTraces returns a Traces that keeps the latest n traces; 0 is 1024.
func NewTraces(n int) *Traces {
	if n <= 0 {
		n = 1024
	}
	return &Traces{ring: make([]*record, n)}
}

func (t *Traces) add(r *record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ring[t.next] = r
	t.next = (t.next + 1) % len(t.ring)
}

// Get returns the trace of a decision. ok is false when there is none or it was dropped for later
// ones.
func (t *Traces) Get(id string) (trace Trace, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.ring {
		if r != nil && r.trace.ID == id { // the id is immutable, so r.mu is not needed
			return r.snapshot(), true
		}
	}
	return Trace{}, false
}

// Latest returns up to n traces; the exchange that ended last comes first.
func (t *Traces) Latest(n int) []Trace {
	t.mu.Lock()
	var records []*record
	for i := 1; i <= len(t.ring) && len(records) < n; i++ {
		r := t.ring[(t.next-i+len(t.ring))%len(t.ring)]
		if r == nil {
			break
		}
		records = append(records, r)
	}
	t.mu.Unlock()
	traces := make([]Trace, len(records))
	for i, r := range records {
		traces[i] = r.snapshot()
	}
	return traces
}
