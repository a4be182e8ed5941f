package httpserver

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

// clientProcess is the process at the other end of a connection, if it is on this machine. Each property is determined
// once per connection.
type clientProcess struct {
	conn net.Conn

	socket func() (peer.Socket, error)
	relate func() lineage.Relation
	known  atomic.Pointer[lineage.Relation] // result of relate; nil before
	slot   chan struct{}                    // held during relate
}

type processKey struct{}

// withProcess adds the client's process to a connection's context, for [http.Server.ConnContext].
func withProcess(ctx context.Context, conn net.Conn) context.Context {
	c := &clientProcess{conn: conn, slot: scanSlot}
	c.socket = sync.OnceValues(c.find)
	c.relate = c.scan
	return context.WithValue(ctx, processKey{}, c)
}

// processOf returns the process of a request's client, or nil if it is unknown.
func processOf(r *http.Request) *clientProcess {
	c, _ := r.Context().Value(processKey{}).(*clientProcess)
	return c
}

// find finds the socket at the other end. The error wraps [errors.ErrUnsupported] if that is not possible: for
// connections other than TCP, and on systems other than Linux.
func (c *clientProcess) find() (peer.Socket, error) {
	local, ok := c.conn.LocalAddr().(*net.TCPAddr)
	remote, is := c.conn.RemoteAddr().(*net.TCPAddr)
	if !ok || !is {
		return peer.Socket{}, errors.ErrUnsupported
	}
	return peer.TCP(local.AddrPort(), remote.AddrPort())
}

// stranger returns why the process may belong to another user, or nil. Root is no stranger. Where users cannot be
// determined, nobody is. c may be nil.
func (c *clientProcess) stranger() error {
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

// scanSlot is held during a scan of all processes, which takes long if there are many. Scans therefore run one at a
// time, so that a client that keeps opening connections uses at most one processor. Each connection has its own scan.
var scanSlot = make(chan struct{}, 1)

// relation returns how the processes at the other end are related to the host's children, waiting for the scan. It
// returns [lineage.Unknown] if ctx ends before.
func (c *clientProcess) relation(ctx context.Context) lineage.Relation {
	if known := c.known.Load(); known != nil {
		return *known
	}
	select {
	case c.slot <- struct{}{}:
		defer func() { <-c.slot }()
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
func (c *clientProcess) scan() lineage.Relation {
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
func (c *clientProcess) within() bool {
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

// child returns why the process may descend from a child of a host, or "" if it does not. It waits for other scans
// until ctx ends. c may be nil.
func (c *clientProcess) child(ctx context.Context) string {
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

// loggedReasons remembers which reasons of refusals have been logged, up to maxLoggedReasons.
type loggedReasons struct {
	mu   sync.Mutex
	told map[string]bool
}

// maxLoggedReasons is the max number of reasons logged.
const maxLoggedReasons = 64

// isNew reports whether a reason should be logged. It returns true once per reason.
func (l *loggedReasons) isNew(why string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told[why] || len(l.told) >= maxLoggedReasons {
		return false
	}
	if l.told == nil {
		l.told = make(map[string]bool)
	}
	l.told[why] = true
	return true
}
