package jsonrpc

// Tick is the period of the watchdog.
const Tick = tick

// Registered returns the number of calls and tokens known to the connection.
func (c *Conn) Registered() (n int) {
	c.update(func(s *state) { n = len(s.calls) + len(s.tokens) })
	return n
}

// Lent reports whether no goroutine reads and the next caller may.
func (c *Conn) Lent() (is bool) {
	c.update(func(s *state) { is = s.reading.role == lent })
	return is
}

// ReadDone is closed when no goroutine reads any more.
func (c *Conn) ReadDone() <-chan struct{} { return c.readDone }
