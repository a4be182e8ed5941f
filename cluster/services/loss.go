package services

import (
	"cmp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/protocol"
)

const (
	silence    = 10 * time.Second       // without a connection, after which the transport ends
	grace      = 2 * time.Second        // without a service, after which the transport ends
	probeEvery = 250 * time.Millisecond // while it is doubted that there is a service
)

// probeID is the id of the requests that show whether there is a service.
const probeID = "probe"

// doubt finds out whether the service is gone, after a request that nobody took. One that has lost
// its connection is back within the grace, and may still answer what it took before.
func (v *service) doubt() {
	defer v.doubted.Store(false)
	heard := v.heard.Load()
	probe := []byte(`{"jsonrpc":"2.0","id":"` + probeID + `","method":"` + protocol.MethodPing + `","params":{}}`)
	for since := time.Now(); time.Since(since) < grace; {
		missing := v.missing.Load()
		known := v.publish(v.inbox+probeID, probe) == nil && v.settle()
		if v.heard.Load() != heard || known && v.missing.Load() == missing { // somebody took it
			return
		}
		select {
		case <-time.After(probeEvery):
		case <-v.ctx.Done():
			return
		}
	}
	v.fail(protocol.Errorf(protocol.ChildExited, "no service takes requests at %s any more; start it", v.requests))
}

// settle waits until the server has answered for what was sent, and that was taken, however far away
// the server is. It reports whether that has happened.
func (v *service) settle() bool {
	taken := make(chan struct{})
	if v.conn.FlushTimeout(grace) != nil || v.conn.Barrier(func() { close(taken) }) != nil {
		return false
	}
	select {
	case <-taken:
		return true
	case <-v.ctx.Done():
		return false
	}
}

// disconnected ends the transport unless there is a connection again in time.
func (v *service) disconnected(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost == nil && v.ctx.Err() == nil {
		v.lost = time.AfterFunc(silence, func() {
			v.fail(protocol.Errorf(protocol.ChildExited, "the connection to NATS at %s is lost: %w",
				strings.Join(v.access.URLs, ", "), cmp.Or(err, nats.ErrDisconnected)))
		})
	}
}

func (v *service) reconnected() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost != nil {
		v.lost.Stop()
		v.lost = nil
	}
}
