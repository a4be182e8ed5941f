// Package caller identifies the process at the other end of a connection, if it is on this machine.
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

// Caller is the process at the other end of a connection, if it is on this machine. Each property is determined once
// per connection.
type Caller struct {
	conn net.Conn

	socket func() (peer.Socket, error)
	relate func() lineage.Relation
	known  atomic.Pointer[lineage.Relation] // result of relate; nil before
}

type key struct{}

// With adds the caller to a connection's context, for [http.Server.ConnContext].
func With(ctx context.Context, conn net.Conn) context.Context {
	c := &Caller{conn: conn}
	c.socket = sync.OnceValues(c.find)
	c.relate = c.scan
	return context.WithValue(ctx, key{}, c)
}

// Of returns the caller of a request, or nil if it is unknown.
func Of(r *http.Request) *Caller {
	c, _ := r.Context().Value(key{}).(*Caller)
	return c
}

// find finds the socket at the other end. The error wraps [errors.ErrUnsupported] if that is not possible: for
// connections other than TCP, and on systems other than Linux.
func (c *Caller) find() (peer.Socket, error) {
	local, ok := c.conn.LocalAddr().(*net.TCPAddr)
	remote, is := c.conn.RemoteAddr().(*net.TCPAddr)
	if !ok || !is {
		return peer.Socket{}, errors.ErrUnsupported
	}
	return peer.TCP(local.AddrPort(), remote.AddrPort())
}

// Stranger returns why the process may belong to another user, or nil. Root is no stranger, nor is anybody where
// users cannot be determined. c may be nil.
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

// scanning is held while all processes are scanned, which takes longer the more there are. So a client that keeps
// opening connections uses at most one processor. Results are not shared between connections.
var scanning = make(chan struct{}, 1)

// relation returns how the processes at the other end are related to the host's children, waiting for the scan. It
// returns [lineage.Unknown] if ctx ends before.
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

// scan determines how the processes at the other end are related to the host's children. Processes on other machines
// are unrelated. A process of this machine that has already closed the connection cannot be determined:
// [lineage.Unknown].
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

// Child returns why the process may descend from a child of a host, or "" if it does not. It waits for other scans
// until ctx ends. c may be nil.
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
