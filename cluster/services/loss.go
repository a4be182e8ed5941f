package services

import (
	"cmp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/protocol"
)

const (
	silence    = 10 * time.Second       // a connection may be lost for so long before the transport ends
	grace      = 2 * time.Second        // a service may be absent for so long before the transport ends
	probeEvery = 250 * time.Millisecond // between probes for an absent service
)

// probeID is the id of the requests that probe for the service.
const probeID = "probe"

// doubt ends the transport if the service stays absent for the grace period. It runs after a request had no
// subscriber: the service may only have lost its connection, and still answer earlier requests.
func (v *service) doubt() {
	defer v.doubted.Store(false)
	heard := v.heard.Load()
	probe := []byte(`{"jsonrpc":"2.0","id":"` + probeID + `","method":"` + protocol.MethodPing + `","params":{}}`)
	for since := time.Now(); time.Since(since) < grace; {
		missing := v.missing.Load()
		known := v.publish(v.inbox+probeID, probe) == nil && v.settle()
		if v.heard.Load() != heard || known && v.missing.Load() == missing { // answered, or received by a subscriber
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

// settle waits until every reply that the server sent before now has been handled. It reports false on a
// timeout.
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

// disconnected ends the transport unless the connection is back within the time silence.
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
