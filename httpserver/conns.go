package httpserver

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// connBounds are the limits of a [connTable]. All are required.
type connBounds struct {
	max          int           // max connections
	strangers    int           // max connections per address without an authenticated request
	strangerIdle time.Duration // how long such a connection may be idle
	full         func()        // called when max is reached, at most once a minute; must not block
}

// fullSpacing is the minimum time between two calls of connBounds.full.
const fullSpacing = time.Minute

// connTable tracks the connections of a server. A stranger is a connection without an authenticated request so far. If
// the table is full, a new connection replaces the one that has been idle longest, strangers first. The new
// connection itself is closed only if requests run on all others.
type connTable struct {
	bounds connBounds

	mu        sync.Mutex // guards the fields below and the entries
	all       map[net.Conn]*connEntry
	strangers *list.List           // idle entries of strangers, longest idle first
	known     *list.List           // idle entries of others, longest idle first
	shares    map[netip.Prefix]int // number of strangers by address
	told      time.Time            // last call of connBounds.full
}

type connEntry struct {
	conn    net.Conn
	address netip.Prefix
	known   bool
	running int           // requests in progress
	waits   *list.Element // nil while requests run
	timer   *time.Timer   // closes an idle stranger; nil before its first request has ended
}

// newConnTable returns an empty table.
func newConnTable(b connBounds) *connTable {
	return &connTable{
		bounds:    b,
		all:       make(map[net.Conn]*connEntry),
		strangers: list.New(),
		known:     list.New(),
		shares:    make(map[netip.Prefix]int),
	}
}

type connKey struct{}

// context adds a connection to the table, for [http.Server.ConnContext].
func (t *connTable) context(ctx context.Context, c net.Conn) context.Context {
	e := &connEntry{conn: c, address: shareOf(c)}
	t.mu.Lock()
	victim := t.enterLocked(e)
	full := victim != nil && len(t.all) > t.bounds.max && time.Since(t.told) > fullSpacing
	if full {
		t.told = time.Now()
	}
	t.mu.Unlock()
	if victim != nil {
		cut(victim) // the server then reports StateClosed
	}
	if full {
		t.bounds.full()
	}
	return context.WithValue(ctx, connKey{}, e)
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
func (t *connTable) enterLocked(e *connEntry) (victim net.Conn) {
	t.all[e.conn] = e
	t.shares[e.address]++
	e.waits = t.strangers.PushBack(e)
	switch {
	case t.shares[e.address] > t.bounds.strangers:
		victim = t.oldestLocked(func(x *connEntry) bool { return x.address == e.address }, t.strangers)
	case len(t.all) > t.bounds.max:
		victim = t.oldestLocked(func(x *connEntry) bool { return x != e }, t.strangers, t.known)
		if victim == nil {
			victim = e.conn
		}
	}
	return victim
}

// oldestLocked returns the longest idle connection for which fits returns true, from the first list that has one. It
// removes the connection from the list, so that it is not chosen again.
func (t *connTable) oldestLocked(fits func(*connEntry) bool, lists ...*list.List) net.Conn {
	for _, l := range lists {
		for at := l.Front(); at != nil; at = at.Next() {
			if e := at.Value.(*connEntry); fits(e) {
				t.busyLocked(e)
				return e.conn
			}
		}
	}
	return nil
}

// busyLocked marks e as not idle.
func (t *connTable) busyLocked(e *connEntry) {
	if e.waits != nil {
		t.waiting(e).Remove(e.waits)
		e.waits = nil
	}
}

// waiting returns the list that e is in while it is idle.
func (t *connTable) waiting(e *connEntry) *list.List {
	if e.known {
		return t.known
	}
	return t.strangers
}

// state closes idle strangers and removes closed connections, for [http.Server.ConnState].
func (t *connTable) state(c net.Conn, state http.ConnState) {
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
			e.timer = time.AfterFunc(t.bounds.strangerIdle, func() { _ = c.Close() })
		}
	case http.StateClosed, http.StateHijacked:
		t.busyLocked(e)
		t.noStrangerLocked(e)
		delete(t.all, c)
	}
}

// noStrangerLocked stops counting e as a stranger of its address.
func (t *connTable) noStrangerLocked(e *connEntry) {
	if e.known {
		return
	}
	e.known = true
	if t.shares[e.address]--; t.shares[e.address] == 0 {
		delete(t.shares, e.address)
	}
}

// requests returns a handler that tracks which connections have requests in progress.
func (t *connTable) requests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, ok := r.Context().Value(connKey{}).(*connEntry)
		if ok {
			t.began(e)
			defer t.ended(e)
		}
		next.ServeHTTP(w, r)
	})
}

func (t *connTable) began(e *connEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.running++
	t.busyLocked(e)
}

func (t *connTable) ended(e *connEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.running--; e.running == 0 && t.all[e.conn] == e {
		e.waits = t.waiting(e).PushBack(e)
	}
}

// admit records that the connection of a request is authenticated.
func (t *connTable) admit(ctx context.Context) {
	if e, ok := ctx.Value(connKey{}).(*connEntry); ok {
		t.mu.Lock()
		t.noStrangerLocked(e)
		t.mu.Unlock()
	}
}

// shareOf returns the address under which a connection is counted: its IPv4 address, or the /64 of its IPv6 address,
// because one machine may have all addresses of a /64. Connections without an address are counted together.
func shareOf(c net.Conn) netip.Prefix {
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
