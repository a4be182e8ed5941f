package conns

import (
	"context"
	"net"
	"testing"
	"time"
)

// layered is a connection like one of TLS, whose Close first notifies a peer that does not read.
type layered struct {
	net.Conn
	stuck chan struct{}
}

func (l *layered) NetConn() net.Conn { return l.Conn }
func (l *layered) Close() error      { <-l.stuck; return l.Conn.Close() }

// Closing a connection for a new one must not block the accept loop.
func TestGivingWayTellsNobody(t *testing.T) {
	table := New(Bounds{Max: 1, Strangers: 1, StrangerIdle: time.Minute, Full: func() {}})
	stuck := make(chan struct{})
	ends := make([]net.Conn, 2)
	for n := range ends {
		near, far := net.Pipe()
		ends[n] = far
		defer near.Close()
		entered := make(chan struct{})
		go func() { defer close(entered); table.Context(context.Background(), &layered{near, stuck}) }()
		select {
		case <-entered:
		case <-time.After(time.Minute):
			t.Error("a new connection waits for the one that gives way")
			close(stuck)
			<-entered
			return
		}
	}
	if _, err := ends[0].Read(make([]byte, 1)); err == nil {
		t.Error("the first connection is open")
	}
}
