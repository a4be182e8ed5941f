package exthost

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/broadcast"
	"github.com/exthost/exthost/internal/redact"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
)

// EventKind says what an [Event] is about.
type EventKind string

// The kinds of event, each with the field of Event that has it.
const (
	EventCall      EventKind = "call"      // an exchange has ended: Call
	EventState     EventKind = "state"     // an instance of an extension is in another state: State
	EventBreaker   EventKind = "breaker"   // an instance's breaker is in another state: State
	EventTools     EventKind = "tools"     // the catalog is another: Tools
	EventReload    EventKind = "reload"    // a reload has ended: Reload or Error
	EventApprovals EventKind = "approvals" // other questions wait for a person: Approvals
)

// EventKinds returns every kind of event.
func EventKinds() []EventKind {
	return []EventKind{EventCall, EventState, EventBreaker, EventTools, EventReload, EventApprovals}
}

// Event is something that happened in a host.
type Event struct {
	Time      time.Time   `json:"time"`
	Kind      EventKind   `json:"kind"`
	Lost      int         `json:"lost,omitempty"`      // events that this listener was too slow for, just before this one
	Call      *CallEvent  `json:"call,omitempty"`      // of a call
	State     *StateEvent `json:"state,omitempty"`     // of a state or a breaker
	Tools     *ToolsEvent `json:"tools,omitempty"`     // of tools
	Reload    *Change     `json:"reload,omitempty"`    // of a reload that was carried out
	Error     string      `json:"error,omitempty"`     // of a reload that was not: why
	Approvals *[]Question `json:"approvals,omitempty"` // of approvals: all that wait now, the oldest first
}

// CallEvent is one exchange with an extension that has ended.
type CallEvent struct {
	Extension string        `json:"extension,omitempty"`
	Tool      string        `json:"tool,omitempty"` // the registered name
	Method    string        `json:"method"`
	Caller    string        `json:"caller,omitempty"`
	Session   string        `json:"session,omitempty"`
	Outcome   Outcome       `json:"outcome"`
	Message   string        `json:"message,omitempty"` // of the error, at most 512 bytes
	Policy    string        `json:"policy,omitempty"`  // that rejected it
	Code      string        `json:"code,omitempty"`    // of the rejection
	Decision  string        `json:"decision_id,omitempty"`
	Trace     string        `json:"trace_id,omitempty"` // of the W3C trace context that its caller sent along
	Replayed  bool          `json:"replayed,omitempty"`
	Took      time.Duration `json:"took_ns"` // in all, policies included
}

// StateEvent is a change of one instance of an extension, or of a policy's process.
type StateEvent struct {
	Extension string                  `json:"extension"` // its id; policy:NAME for a policy's process
	Instance  string                  `json:"instance,omitempty"`
	State     supervisor.State        `json:"state,omitempty"`
	Breaker   supervisor.BreakerState `json:"breaker,omitempty"`
	Reason    string                  `json:"reason,omitempty"`
	Attempt   int                     `json:"attempt,omitempty"` // which restart this is
	Of        int                     `json:"of,omitempty"`      // how many are allowed; negative: any number
	Due       *time.Time              `json:"due,omitempty"`     // when the next attempt, or a breaker's probe, is
}

// ToolsEvent is a new catalog.
type ToolsEvent struct {
	Generation uint64 `json:"generation"`
	Count      int    `json:"count"`
}

// feed hands events to those who listen. Its zero value has no listeners.
type feed struct{ broadcast.Hub[Event] }

// clock is the time while somebody listens, and zero otherwise.
func (f *feed) clock() (now time.Time) {
	if f.Readers() > 0 {
		now = time.Now()
	}
	return now
}

// publish gives e to all who listen. It does not wait for them.
func (f *feed) publish(e Event) {
	e.Time = time.Now()
	f.Publish(e, 0)
}

// Events yields what happens in the host from now on, of these kinds or of all,
// until ctx ends or the host is closed. A listener that falls behind by 1024 events
// loses some and is told how many. Approvals come once at the start, as they are.
func (a Admin) Events(ctx context.Context, kinds ...EventKind) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		wants := func(kind EventKind) bool { return len(kinds) == 0 || slices.Contains(kinds, kind) }
		l := a.h.feed.Join(func(e *Event) bool { return wants(e.Kind) })
		defer l.Leave()
		var changed <-chan struct{}
		if wants(EventApprovals) {
			if changed = a.h.oversight.desk.Changed(); !yield(a.h.questions()) {
				return
			}
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				if changed = a.h.oversight.desk.Changed(); !yield(a.h.questions()) {
					return
				}
			case <-l.More():
				events, closed := l.Take()
				for _, e := range events {
					if e.Value.Lost = e.Lost; ctx.Err() != nil || !yield(e.Value) {
						return
					}
				}
				if closed {
					return
				}
			}
		}
	}
}

func (h *Host) questions() Event {
	list := h.oversight.desk.List()
	return Event{Time: time.Now(), Kind: EventApprovals, Approvals: &list}
}

// stateEvent tells listeners what happened to an instance of an extension.
func (f *feed) stateEvent(id string, e supervisor.Event) {
	if f.Readers() == 0 {
		return
	}
	s := &StateEvent{Extension: id, Instance: e.Key, State: e.State, Breaker: e.Breaker, Attempt: e.Attempt, Of: e.MaxAttempts}
	if e.Err != nil {
		s.Reason = message(e.Err)
	}
	if !e.Next.IsZero() {
		s.Due = new(e.Next)
	}
	kind := EventState
	if e.Kind == supervisor.BreakerChanged {
		kind = EventBreaker
	}
	f.publish(Event{Kind: kind, State: s})
}

// reloadEvent tells listeners how a reload ended.
func (f *feed) reloadEvent(c *Change, err error) {
	e := Event{Kind: EventReload, Reload: c}
	if err != nil {
		e.Error = err.Error()
	}
	f.publish(e)
}

// account counts an exchange that has ended, and tells listeners of one that began
// while there were some.
func (h *Host) account(r *routed, began time.Time, err error) {
	if !r.isToolCall() && began.IsZero() {
		return
	}
	outcome := outcomeOf(r.exchange.Response, err)
	switch {
	case r.entry != nil:
		h.tally.call(r.entry.Extension, r.entry.Name, outcome)
	case r.isToolCall():
		h.tally.call(r.exchange.Extension, "", outcome) // a destination's, whose names of tools are not in the catalog
	}
	if !began.IsZero() {
		h.feed.callEvent(r, began, outcome, err)
	}
}

// callEvent tells listeners how an exchange ended that began at began.
func (f *feed) callEvent(r *routed, began time.Time, outcome Outcome, err error) {
	x := &r.exchange
	c := &CallEvent{
		Extension: x.Extension, Tool: x.Tool, Method: x.Method, Caller: x.Caller, Session: x.Session, Outcome: outcome,
		Decision: x.ID, Replayed: x.Replayed, Trace: traceID(r.call.Params), Took: time.Since(began),
	}
	if err != nil {
		m := message(err)
		m, _ = redact.Default().Text(m[:min(len(m), 2*maxMessage)]) // no secret is cut in two
		c.Message = strings.ToValidUTF8(m[:min(len(m), maxMessage)], "")
	}
	if protocol.KindOf(err) == protocol.Rejected {
		c.Policy, c.Code = x.Verdict.Policy, x.Verdict.Code
	}
	f.publish(Event{Kind: EventCall, Call: c})
}

// maxMessage is what an event has of an error's words, in bytes.
const maxMessage = 512
