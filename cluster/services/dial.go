package services

import (
	"context"
	"net"
)

// dialed is a connection that ends with its service: the client of NATS leaves some open.
type dialed struct {
	net.Conn
	stop func() bool
}

// Dial implements nats.CustomDialer.
func (v *service) Dial(network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(v.ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &dialed{c, context.AfterFunc(v.ctx, func() { _ = c.Close() })}, nil
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
	c.stop()
	return c.Conn.Close()
}
