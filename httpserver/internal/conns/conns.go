// Package conns bounds the connections of a server so that idle ones of strangers cannot
// lock others out.
package conns

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Bounds of a [Table]. All are required.
type Bounds struct {
	Max          int           // connections at once
	Strangers    int           // connections at once of one address that have made no authenticated request
	StrangerIdle time.Duration // how long such a connection may wait for its next request
	Full         func()        // is told that the first bound was reached, at most once a minute; must return at once
}

// fullSpacing is the least time between two calls of Bounds.Full.
const fullSpacing = time.Minute

// Table holds the connections of a server. A new connection that finds the table full takes
// the place of one that no request runs on: the one that has waited longest among the
// strangers, else among the others. Only when requests run on all of them is the new one
// closed. A stranger is a connection without an authenticated request so far.
type Table struct {
	bounds Bounds

	mu        sync.Mutex // guards what follows, and the entries
	all       map[net.Conn]*entry
	strangers *list.List           // entries of strangers that wait, the longest first
	known     *list.List           // the same of others
	shares    map[netip.Prefix]int // strangers by address
	told      time.Time            // of the last call of Full
}

type entry struct {
	conn    net.Conn
	address netip.Prefix
	known   bool
	running int           // requests
	waits   *list.Element // nil while requests run
	timer   *time.Timer   // ends a stranger that is idle; nil before the first request has ended
}

// New returns an empty table.
func New(b Bounds) *Table {
	return &Table{
		bounds:    b,
		all:       make(map[net.Conn]*entry),
		strangers: list.New(),
		known:     list.New(),
		shares:    make(map[netip.Prefix]int),
	}
}

type key struct{}

// Context is for [http.Server.ConnContext]: it enters a connection.
func (t *Table) Context(ctx context.Context, c net.Conn) context.Context {
	e := &entry{conn: c, address: addressOf(c)}
	t.mu.Lock()
	victim := t.enterLocked(e)
	full := victim != nil && len(t.all) > t.bounds.Max && time.Since(t.told) > fullSpacing
	if full {
		t.told = time.Now()
	}
	t.mu.Unlock()
	if victim != nil {
		cut(victim) // the server then reports StateClosed
	}
	if full {
		t.bounds.Full()
	}
	return context.WithValue(ctx, key{}, e)
}

// cut closes c at once. The Close of a TLS connection would first tell the peer, for up to
// 5 s if that does not read, and nobody is accepted meanwhile.
func cut(c net.Conn) {
	if layer, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = layer.NetConn()
	}
	_ = c.Close()
}

// enterLocked adds e and returns the connection to close for it, which may be its own; nil
// when there is room.
func (t *Table) enterLocked(e *entry) (victim net.Conn) {
	t.all[e.conn] = e
	t.shares[e.address]++
	e.waits = t.strangers.PushBack(e)
	switch {
	case t.shares[e.address] > t.bounds.Strangers:
		victim = t.oldestLocked(func(x *entry) bool { return x.address == e.address }, t.strangers)
	case len(t.all) > t.bounds.Max:
		victim = t.oldestLocked(func(x *entry) bool { return x != e }, t.strangers, t.known)
		if victim == nil {
			victim = e.conn
		}
	}
	return victim
}

// oldestLocked returns the connection that has waited longest among those that fit, in the
// first list that has one. It waits no longer, so that it is not chosen again.
func (t *Table) oldestLocked(fits func(*entry) bool, lists ...*list.List) net.Conn {
	for _, l := range lists {
		for at := l.Front(); at != nil; at = at.Next() {
			if e := at.Value.(*entry); fits(e) {
				t.busyLocked(e)
				return e.conn
			}
		}
	}
	return nil
}

// busyLocked notes that e does not wait.
func (t *Table) busyLocked(e *entry) {
	if e.waits != nil {
		t.waiting(e).Remove(e.waits)
		e.waits = nil
	}
}

// waiting returns the list that e waits in.
func (t *Table) waiting(e *entry) *list.List {
	if e.known {
		return t.known
	}
	return t.strangers
}

// State is for [http.Server.ConnState]: it ends strangers that are idle, and forgets
// connections that have ended.
func (t *Table) State(c net.Conn, state http.ConnState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.all[c]
	if e == nil {
		return
	}
	if e.timer != nil {
		e.timer.Stop()
	}
	switch state {
	case http.StateIdle:
		if !e.known {
			e.timer = time.AfterFunc(t.bounds.StrangerIdle, func() { _ = c.Close() })
		}
	case http.StateClosed, http.StateHijacked:
		t.busyLocked(e)
		t.strangeNoMoreLocked(e)
		delete(t.all, c)
	}
}

// strangeNoMoreLocked takes e from the share of its address.
func (t *Table) strangeNoMoreLocked(e *entry) {
	if e.known {
		return
	}
	e.known = true
	if t.shares[e.address]--; t.shares[e.address] == 0 {
		delete(t.shares, e.address)
	}
}

// Requests returns a handler that notes which connections have requests that run.
func (t *Table) Requests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, ok := r.Context().Value(key{}).(*entry)
		if ok {
			t.began(e)
			defer t.ended(e)
		}
		next.ServeHTTP(w, r)
	})
}

func (t *Table) began(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.running++
	t.busyLocked(e)
}

func (t *Table) ended(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.running--; e.running == 0 && t.all[e.conn] == e {
		e.waits = t.waiting(e).PushBack(e)
	}
}

// Admit notes that the connection of a running request has been authenticated.
func (t *Table) Admit(ctx context.Context) {
	if e, ok := ctx.Value(key{}).(*entry); ok {
		t.mu.Lock()
		t.strangeNoMoreLocked(e)
		t.mu.Unlock()
	}
}

// addressOf returns whose share a connection counts for: an IPv4 address, or the /64 of an
// IPv6 address, of which one machine may have all. Connections without an address share one.
func addressOf(c net.Conn) netip.Prefix {
	addr, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, bits := addr.AddrPort().Addr().Unmap().WithZone(""), 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits) // the zero prefix for an address that is not valid
	return p
}
