// Package conns limits the connections of a server so that idle unauthenticated ones cannot lock others out.
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

// Bounds are the limits of a [Table]. All are required.
type Bounds struct {
	Max          int           // max connections
	Strangers    int           // max connections per address without an authenticated request
	StrangerIdle time.Duration // how long such a connection may be idle
	Full         func()        // called when Max is reached, at most once a minute; must not block
}

// fullSpacing is the minimum time between two calls of Bounds.Full.
const fullSpacing = time.Minute

// Table tracks the connections of a server. A stranger is a connection without an authenticated request so far. If
// the table is full, a new connection replaces the one that has been idle longest, strangers first. The new
// connection itself is closed only if requests run on all others.
type Table struct {
	bounds Bounds

	mu        sync.Mutex // guards the fields below and the entries
	all       map[net.Conn]*entry
	strangers *list.List           // idle entries of strangers, longest idle first
	known     *list.List           // idle entries of others, longest idle first
	shares    map[netip.Prefix]int // number of strangers by address
	told      time.Time            // last call of Full
}

type entry struct {
	conn    net.Conn
	address netip.Prefix
	known   bool
	running int           // requests in progress
	waits   *list.Element // nil while requests run
	timer   *time.Timer   // closes an idle stranger; nil before its first request has ended
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

// Context adds a connection to the table, for [http.Server.ConnContext].
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

// cut closes c at once. The Close of a TLS connection would first notify the peer, for up to 5 s if it does not read,
// and block the accept loop.
func cut(c net.Conn) {
	if layer, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = layer.NetConn()
	}
	_ = c.Close()
}

// enterLocked adds e and returns the connection to close for it, possibly e's own, or nil if there is room.
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

// oldestLocked returns the longest idle connection that fits, from the first list that has one. It is removed from
// the list, so that it is not chosen again.
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

// busyLocked marks e as not idle.
func (t *Table) busyLocked(e *entry) {
	if e.waits != nil {
		t.waiting(e).Remove(e.waits)
		e.waits = nil
	}
}

// waiting returns the list of idle entries for e.
func (t *Table) waiting(e *entry) *list.List {
	if e.known {
		return t.known
	}
	return t.strangers
}

// State closes idle strangers and removes closed connections, for [http.Server.ConnState].
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

// strangeNoMoreLocked stops counting e as a stranger of its address.
func (t *Table) strangeNoMoreLocked(e *entry) {
	if e.known {
		return
	}
	e.known = true
	if t.shares[e.address]--; t.shares[e.address] == 0 {
		delete(t.shares, e.address)
	}
}

// Requests returns a handler that tracks which connections have requests in progress.
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

// Admit records that the connection of a request is authenticated.
func (t *Table) Admit(ctx context.Context) {
	if e, ok := ctx.Value(key{}).(*entry); ok {
		t.mu.Lock()
		t.strangeNoMoreLocked(e)
		t.mu.Unlock()
	}
}

// addressOf returns the address that a connection counts for: an IPv4 address, or the /64 of an IPv6 address, because
// one machine may have all of it. Connections without an address count together.
func addressOf(c net.Conn) netip.Prefix {
	addr, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, bits := addr.AddrPort().Addr().Unmap().WithZone(""), 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits) // the zero prefix for an invalid address
	return p
}
