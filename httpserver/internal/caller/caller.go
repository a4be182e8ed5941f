// Package caller tells which process of this machine is at the other end of a connection.
package caller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/internal/proc/containment/lineage"
	"github.com/exthost/exthost/internal/proc/peer"
)

// Caller is the process of this machine at the other end of a connection. Each question about
// it is answered once for a connection.
type Caller struct {
	conn net.Conn

	socket func() (peer.Socket, error)
	relate func() lineage.Relation
	known  atomic.Pointer[lineage.Relation] // what relate has returned; nil before that
}

type key struct{}

// With is for [http.Server.ConnContext].
func With(ctx context.Context, conn net.Conn) context.Context {
	c := &Caller{conn: conn}
	c.socket = sync.OnceValues(c.find)
	c.relate = c.scan
	return context.WithValue(ctx, key{}, c)
}

// Of returns the caller at the other end of the connection of a request; nil without one.
func Of(r *http.Request) *Caller {
	c, _ := r.Context().Value(key{}).(*Caller)
	return c
}

// find finds the socket of the other end. The error wraps [errors.ErrUnsupported] where that
// is not possible: for other connections than those of TCP, and on other systems than Linux.
func (c *Caller) find() (peer.Socket, error) {
	local, ok := c.conn.LocalAddr().(*net.TCPAddr)
	remote, is := c.conn.RemoteAddr().(*net.TCPAddr)
	if !ok || !is {
		return peer.Socket{}, errors.ErrUnsupported
	}
	return peer.TCP(local.AddrPort(), remote.AddrPort())
}

// Stranger returns why a process may be another user's than this one's; nil for root, and
// where users cannot be told. c may be nil.
func (c *Caller) Stranger() error {
	if c == nil {
		return nil
	}
	socket, err := c.socket()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err != nil:
		return err
	case socket.UID != os.Geteuid() && socket.UID != 0:
		return fmt.Errorf("it is of the user with uid %d", socket.UID)
	}
	return nil
}

// scanning is held while all processes are looked at, which takes the longer the more there are: a client
// that opens connection after connection gets no more than one processor of this machine. What is
// found of one connection is used for no other.
var scanning = make(chan struct{}, 1)

// relation tells how the processes at the other end are related to the children of this one, and waits
// until they are looked at. It is [lineage.Unknown] when ctx ends before.
func (c *Caller) relation(ctx context.Context) lineage.Relation {
	if known := c.known.Load(); known != nil {
		return *known
	}
	select {
	case scanning <- struct{}{}:
		defer func() { <-scanning }()
	case <-ctx.Done():
		return lineage.Unknown
	}
	if known := c.known.Load(); known != nil {
		return *known
	}
	found := c.relate()
	c.known.Store(&found)
	return found
}

// scan tells how the processes at the other end are related to the children of this one.
// Those of another machine are unrelated. So is a process of this machine that has closed
// its end already: nobody can tell which it was, and [lineage.Unknown] says so.
func (c *Caller) scan() lineage.Relation {
	socket, err := c.socket()
	switch {
	case err == nil:
		return lineage.OfSocket(socket.Inode, socket.UID)
	case errors.Is(err, errors.ErrUnsupported), !c.within():
		return lineage.Unrelated
	}
	return lineage.Unknown
}

// within reports whether the other end has an address of this machine.
func (c *Caller) within() bool {
	remote, ok := c.conn.RemoteAddr().(*net.TCPAddr)
	if !ok || remote.IP.IsLoopback() {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, a := range addresses {
		if own, ok := a.(*net.IPNet); ok && own.IP.Equal(remote.IP) {
			return true
		}
	}
	return false
}

// Child returns why a process may descend from a child of a host; "" if it does not. It waits while
// other connections are judged, until ctx ends. c may be nil.
func (c *Caller) Child(ctx context.Context) string {
	if c == nil {
		return ""
	}
	switch c.relation(ctx) {
	case lineage.Descendant:
		return "the request comes from an extension, hook or policy of a host, this one or an earlier one, and a " +
			"host takes no orders from those"
	case lineage.Unknown:
		why := lineage.Hiding()
		if why == "" {
			why = "that process has no_new_privs as they have, or hides its descriptors, or has closed the " +
				"connection; use exthost in a terminal, or a program without no_new_privs"
		}
		return "the host cannot tell that the request comes from no extension, hook or policy: " + why
	}
	return ""
}
