package stats

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// Feed sends events to listeners. The zero value has no listeners.
type Feed struct {
	concurrent.Broadcast[status.Event]
}

// Approvals are the approval requests that wait for a person.
type Approvals interface {
	// Current returns the requests, the nodes whose requests are missing, and channels of which one is closed when they
	// change.
	Current() (list []approval.Request, silent []status.Silent, own, remote <-chan struct{})
	// Follow keeps the requests of other nodes current until leave is called.
	Follow() (leave func())
}

// Events yields events from now on, of the given kinds or of all, until ctx ends or the feed is closed. The
// current approval requests come first.
func (f *Feed) Events(ctx context.Context, from Approvals, kinds ...status.EventKind) iter.Seq[status.Event] {
	return func(yield func(status.Event) bool) {
		wants := func(kind status.EventKind) bool { return len(kinds) == 0 || slices.Contains(kinds, kind) }
		l := f.Join(func(e *status.Event) bool { return wants(e.Kind) })
		defer l.Leave()
		var own, remote <-chan struct{}
		approvals := func() bool {
			e := status.Event{Time: time.Now(), Kind: status.EventApprovals, Approvals: new([]approval.Request)}
			*e.Approvals, e.Silent, own, remote = from.Current()
			return yield(e)
		}
		if wants(status.EventApprovals) {
			defer from.Follow()()
			if !approvals() {
				return
			}
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-own:
				if !approvals() {
					return
				}
			case <-remote:
				if !approvals() {
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

// Send sends e to all listeners. It does not block.
func (f *Feed) Send(e status.Event) {
	e.Time = time.Now()
	f.Publish(e, 0)
}

// State reports an event of an instance of extension id.
func (f *Feed) State(id string, e supervisor.Event) {
	if f.Readers() == 0 {
		return
	}
	s := &status.StateEvent{
		Extension: id,
		Instance:  e.Key,
		State:     e.State,
		Breaker:   e.Breaker,
		Attempt:   e.Attempt,
		Of:        e.MaxAttempts,
	}
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

// Reload reports the outcome of a reload.
func (f *Feed) Reload(c *status.Change, err error) {
	e := status.Event{Kind: status.EventReload, Reload: c}
	if err != nil {
		e.Error = err.Error()
	}
	f.Send(e)
}

// Call reports the end of an exchange.
func (f *Feed) Call(c *status.CallEvent) { f.Send(status.Event{Kind: status.EventCall, Call: c}) }
