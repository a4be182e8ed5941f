package conns

import (
	"context"
	"net"
	"testing"
	"time"
)

// layered is a connection as of TLS, whose Close first tells the peer, who may not read.
type layered struct {
	net.Conn
	stuck chan struct{}
}

func (l *layered) NetConn() net.Conn { return l.Conn }
func (l *layered) Close() error      { <-l.stuck; return l.Conn.Close() }

// A connection that gives way does not delay the one that takes its place: the server
// accepts no other meanwhile.
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
