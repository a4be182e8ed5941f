package unit

import (
	"path"
	"slices"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
)

// Phase tells how far the start of a unit has come.
type Phase struct {
	id        string
	transport manifest.Transport
	onDemand  bool                           // instances start with a call
	slots     func() []supervisor.SlotStatus // of the unit's instances
	runs      func() []*Instance             // instances that may have a process
	pending   atomic.Bool                    // see SetPending
}

// SetPending sets whether the unit starts with the host and has neither started nor failed yet. It may still wait
// for other units.
func (p *Phase) SetPending(is bool) { p.pending.Store(is) }

// IsStarting reports whether the unit will soon accept calls: it starts with the host, or an instance starts or
// is due to.
func (p *Phase) IsStarting() bool {
	if p.pending.Load() {
		return true
	}
	return !p.is(supervisor.Ready) && (p.is(supervisor.Spawning) || p.is(supervisor.Restarting) && !p.onDemand)
}

// IsSettling reports whether the unit has started with the host, but its tools are in no snapshot yet.
func (p *Phase) IsSettling() bool { return p.pending.Load() && p.is(supervisor.Ready) }

func (p *Phase) is(state supervisor.State) bool {
	return slices.ContainsFunc(p.slots(), func(s supervisor.SlotStatus) bool { return s.State == state })
}

// Doing returns what a starting unit probably does: an installation looks like a slow start from outside.
func (p *Phase) Doing() string {
	switch t := p.transport; {
	case p.IsSettling():
		return "the host adds its tools to the list"
	case t.Kind == manifest.KindHTTP || t.Kind == manifest.KindSSE:
		return "the host connects to its server"
	case t.Kind == manifest.KindNATS:
		return "the host connects to its service on NATS"
	case slices.ContainsFunc(p.runs(), func(i *Instance) bool { return i.Info().Installing }):
		return path.Base(t.CommandLine()[0]) + " may be installing it"
	}
	return "the host waits for its handshake"
}

// Waiting returns what a call without an instance waits for.
func (p *Phase) Waiting() string {
	if p.IsStarting() {
		return p.id + " is starting: " + p.Doing()
	}
	return p.id + " is busy with other calls"
}

// Failure returns why the latest instance did not start or ended, "" if none did.
func (p *Phase) Failure() string {
	for _, s := range p.slots() {
		if s.Err != nil {
			return protocol.Reason(s.Err)
		}
	}
	return ""
}

// failed returns the time of a failure whose instance has no successor yet, zero if there is none.
func (p *Phase) failed() (at time.Time) {
	for _, s := range p.slots() {
		if (s.State == supervisor.Restarting || s.State == supervisor.Failed) && s.Since.After(at) {
			at = s.Since
		}
	}
	return at
}
