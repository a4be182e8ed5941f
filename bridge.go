package exthost

import (
	"context"
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
)

// Destination is an MCP server that fronts bridge to HTTP.
type Destination struct {
	Name  string
	Local bool // it is a command of this machine, and has a port of its own
	Port  int  // which one; 0 is any free one
}

// addDestinations adds the destinations of r's configuration to it. One with the id
// of an extension is left out: their tools could not be told apart.
func (h *Host) addDestinations(r *roster) {
	r.bridged = make(map[string]*extension, len(r.cfg.Destinations))
	for _, name := range slices.Sorted(maps.Keys(r.cfg.Destinations)) {
		if other := r.extensions[name]; other != nil {
			r.diagnostics = append(r.diagnostics, protocol.Diagnostic{Level: protocol.LevelError, Code: discovery.CodeDuplicateID, Extension: name, Path: other.candidate.Path,
				Message: "the destination " + name + " is left out: there is an extension of that id", Hint: "choose another name under destinations"})
			continue
		}
		r.bridged[name] = h.newDestination(r.cfg, name, r.cfg.Destinations[name])
	}
}

// keepDestinations has next go on with the destinations of now that are the same,
// and names the others.
func (next *roster) keepDestinations(now *roster) (changed, retried []string) {
	changed, retried = []string{}, []string{}
	for name, x := range next.bridged {
		before := now.bridged[name]
		if before == nil || before.source.sum != x.source.sum || !reflect.DeepEqual(before.bridge.config, x.bridge.config) {
			changed = append(changed, name)
			continue
		}
		next.bridged[name] = before
		if before.bridge.failure() != nil {
			retried = append(retried, name)
		}
	}
	for name := range now.bridged {
		if next.bridged[name] == nil {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed, retried
}

// rebridged tells fronts that there may be other destinations than before.
func (h *Host) rebridged() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.bridgedAnew)
	h.bridgedAnew = make(chan struct{})
}

// Destinations yields the destinations there are, by name, now and after every
// reload, until ctx ends or the host is closed.
func (a Admin) Destinations(ctx context.Context) iter.Seq[[]Destination] {
	return func(yield func([]Destination) bool) {
		for {
			a.h.mu.Lock()
			changed := a.h.bridgedAnew
			a.h.mu.Unlock()
			var list []Destination
			for _, x := range a.h.gen.Load().destinations() {
				d := x.bridge.config
				list = append(list, Destination{Name: x.bridge.name, Local: d.Type == config.DestinationStdio, Port: d.Port})
			}
			if !yield(list) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-a.h.closing.Done():
				return
			}
		}
	}
}

// EnvHeaders returns the headers of a client's request that instances of a destination
// are given, and the variables that they become; nil when there are none.
func (a Admin) EnvHeaders(name string) map[string]string {
	if x := a.h.gen.Load().bridged[name]; x != nil {
		return x.bridge.config.EnvFromHeaders
	}
	return nil
}

// Listens notes the address at which a front serves a destination besides /{name},
// for the status; "" when it no longer does.
func (a Admin) Listens(name, address string) {
	if x := a.h.gen.Load().bridged[name]; x != nil {
		x.bridge.mu.Lock()
		defer x.bridge.mu.Unlock()
		x.bridge.listen = address
	}
}

// Refuses returns why a request of s to the destination s.Extension would be refused
// at the moment, a *protocol.Error with RetryAfter, because it has failed too often
// or cannot run; nil when it would not, and for what is no destination.
func (a Admin) Refuses(s *protocol.Session) error {
	x := a.h.gen.Load().bridged[s.Extension]
	if x == nil {
		return nil
	}
	key := sessionKey(s)
	err := x.masked(x.bridge.refuses(key, x.bridge.fuses.refuses, x.lives(key)))
	if err == nil {
		return nil
	}
	return (&routed{target: x}).blame(err)
}

// DestinationStatus is one destination's part of [Status].
type DestinationStatus struct {
	ExtensionStatus
	Listens    string     `json:"listens,omitempty"`     // its own address, besides /{id} of the server
	StandbyPID int        `json:"standby_pid,omitempty"` // the process that waits for the next connection
	Refuses    string     `json:"refuses,omitempty"`     // why new connections are refused; "" when they are not
	RetryAt    *time.Time `json:"retry_at,omitempty"`    // when the next one may try
}

// destinationStatus is the status of a destination.
func (x *extension) destinationStatus(g *generation) DestinationStatus {
	b := x.bridge
	s := DestinationStatus{ExtensionStatus: x.status(g), StandbyPID: b.standby.PID()}
	b.mu.Lock()
	s.Listens = b.listen
	b.mu.Unlock()
	if hs := x.handshake.Load(); hs != nil {
		for _, t := range hs.Tools {
			s.Tools = append(s.Tools, b.canonical(t.Name))
		}
	}
	if err := b.failure(); err != nil {
		s.State, s.Reason = string(supervisor.Failed), message(x.masked(err))
	}
	if err := b.fuses.refuses(time.Now(), starts, false); err != nil {
		s.Refuses = message(x.masked(err))
		if e, ok := err.(*protocol.Error); ok {
			at := time.Now().Add(e.RetryAfter)
			s.RetryAt = &at
		}
	}
	return s
}
