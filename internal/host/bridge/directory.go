package bridge

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/protocol"
)

// Directory holds the destinations in force, for fronts. It is safe for concurrent use.
type Directory struct {
	closing context.Context // ends with the host

	mu      sync.Mutex // guards the fields below
	byName  map[string]*Destination
	changed chan struct{} // closed by the next Replace
}

// NewDirectory returns an empty directory. Its sequences end with closing.
func NewDirectory(closing context.Context) *Directory {
	return &Directory{closing: closing, changed: make(chan struct{})}
}

// Replace puts other destinations in force.
func (d *Directory) Replace(byName map[string]*Destination) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byName = byName
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *Directory) get(name string) *Destination {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byName[name]
}

// stated returns the destinations as the configuration states them, and a channel that is closed when they change.
func (d *Directory) stated() (byName map[string]config.Destination, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	byName = make(map[string]config.Destination, len(d.byName))
	for name, x := range d.byName {
		byName[name] = x.Config
	}
	return byName, d.changed
}

// Destinations yields the destinations, now and after every reload, until ctx ends or the host is closed.
func (d *Directory) Destinations(ctx context.Context) iter.Seq[map[string]config.Destination] {
	return func(yield func(map[string]config.Destination) bool) {
		for {
			byName, changed := d.stated()
			if !yield(byName) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-d.closing.Done():
				return
			}
		}
	}
}

// EnvHeaders maps request headers of a client to variables of its instance; nil if there are none.
func (d *Directory) EnvHeaders(name string) map[string]string {
	if x := d.get(name); x != nil {
		return x.Config.EnvFromHeaders
	}
	return nil
}

// Listens sets the additional address, besides /{name}, that the status shows for a destination; "" when its
// front has stopped serving it.
func (d *Directory) Listens(name, address string) {
	if x := d.get(name); x != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.listen = address
	}
}

// Refuses returns why the destination s.Extension would refuse a request of s now: it has failed too often or cannot
// run. The error is a *protocol.Error with RetryAfter. It is nil if the request would be served, and for an unknown
// destination.
func (d *Directory) Refuses(s *protocol.Session) error {
	x := d.get(s.Extension)
	if x == nil {
		return nil
	}
	err := x.Refusal(d.closing, s)
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		return err
	}
	named := *e
	named.Extension = s.Extension
	return &named
}
