package stats

import (
	"time"

	"github.com/exthost/exthost/internal/broadcast"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// Feed hands events to listeners. Its zero value has no listeners.
type Feed struct{ broadcast.Hub[status.Event] }

// Send gives e to all listeners. It does not wait for them.
func (f *Feed) Send(e status.Event) {
	e.Time = time.Now()
	f.Publish(e, 0)
}

// State tells listeners what happened to an instance of the extension of that id.
func (f *Feed) State(id string, e supervisor.Event) {
	if f.Readers() == 0 {
		return
	}
	s := &status.StateEvent{Extension: id, Instance: e.Key, State: e.State, Breaker: e.Breaker, Attempt: e.Attempt, Of: e.MaxAttempts}
	if e.Err != nil {
		s.Reason = protocol.Reason(e.Err)
	}
	if !e.Next.IsZero() {
		s.Due = new(e.Next)
	}
	kind := status.EventState
	if e.Kind == supervisor.BreakerChanged {
		kind = status.EventBreaker
	}
	f.Send(status.Event{Kind: kind, State: s})
}

// Reload tells listeners how a reload ended.
func (f *Feed) Reload(c *status.Change, err error) {
	e := status.Event{Kind: status.EventReload, Reload: c}
	if err != nil {
		e.Error = err.Error()
	}
	f.Send(e)
}

// Call tells listeners how an exchange ended.
func (f *Feed) Call(c *status.CallEvent) { f.Send(status.Event{Kind: status.EventCall, Call: c}) }
