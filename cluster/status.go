package cluster

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/cluster/internal/link"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// traffic counts calls by node.
type traffic struct {
	mu     sync.Mutex // guards byNode
	byNode map[string]*counts
}

type counts struct{ out, in, failed uint64 }

func (t *traffic) add(node string, count func(*counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byNode == nil {
		t.byNode = make(map[string]*counts)
	}
	c := t.byNode[node]
	if c == nil {
		c = new(counts)
		t.byNode[node] = c
	}
	count(c)
}

// out counts a call to a remote node. The call has failed unless it returned a result or an error of the extension.
func (t *traffic) out(node string, err error) {
	e, ok := errors.AsType[*protocol.Error](err)
	failed := ok && e.Kind != protocol.ExtensionError
	t.add(node, func(c *counts) {
		c.out++
		if failed {
			c.failed++
		}
	})
}

func (t *traffic) in(node string) { t.add(node, func(c *counts) { c.in++ }) }

func (t *traffic) of(node string) counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.byNode[node]; c != nil {
		return *c
	}
	return counts{}
}

// rttPause is the interval between two RTT measurements.
const rttPause = 5 * time.Second

// measure updates n.rtt until the node closes; 0 means that the last measurement failed.
func (n *Node) measure(l *link.Link) {
	tick := time.NewTicker(rttPause)
	defer tick.Stop()
	for {
		took, err := l.RTT(n.closing)
		if err != nil {
			took = 0
		}
		n.rtt.Store(int64(took))
		select {
		case <-tick.C:
		case <-n.closing.Done():
			return
		}
	}
}

// Status implements [peers.Cluster].
func (n *Node) Status() *status.Cluster {
	s := &status.Cluster{Name: n.o.Settings.Name, Node: n.self.Node, Nodes: n.members.Nodes()}
	state := n.state.Load()
	if s.Reason = state.reason; state.connected {
		s.Reason = n.members.Fault()
		l := n.link.Load()
		s.Server = l.Server()
		s.TLS = n.servers.TLS != nil || strings.HasPrefix(s.Server, "tls://")
		s.RTT = time.Duration(n.rtt.Load())
	}
	for i := range s.Nodes {
		c := n.traffic.of(s.Nodes[i].Name)
		s.Nodes[i].Out, s.Nodes[i].In, s.Nodes[i].Failed = c.out, c.in, c.failed
	}
	return s
}
