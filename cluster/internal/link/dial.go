package link

import (
	"errors"
	"net"
	"sync"
)

// dialer dials for the NATS client and closes what the client leaves open: a connection whose
// greeting failed while the client was closed.
type dialer struct {
	mu     sync.Mutex // guards what follows
	open   map[*dialed]struct{}
	closed bool
}

// dialed is a connection that its dialer knows until it is closed.
type dialed struct {
	net.Conn
	of *dialer
}

var errClosed = errors.New("the connection to the cluster is closed")

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: dialTimeout}).Dial(network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.Join(errClosed, c.Close())
	}
	one := &dialed{c, d}
	if d.open == nil {
		d.open = make(map[*dialed]struct{})
	}
	d.open[one] = struct{}{}
	return one, nil
}

// Write implements [net.Conn]. After a write that failed nothing more is written: a server would take
// it for the rest of the message that was cut.
func (c *dialed) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		_ = c.Close()
	}
	return n, err
}

// Close implements [net.Conn].
func (c *dialed) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// close closes what is open, and whatever is dialed from now on.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for c := range d.open {
		_ = c.Conn.Close() // the client has given it up
	}
	clear(d.open)
}
