package cluster

import (
	"context"
	"fmt"

	"github.com/exthost/exthost/cluster/internal/link"
	"github.com/exthost/exthost/cluster/internal/quota"
	"github.com/exthost/exthost/cluster/internal/wire"
	limits "github.com/exthost/exthost/governance/quota"
)

var _ limits.Source = (*Node)(nil)

// newQuota returns the leases of this node from limits that all nodes share.
func (n *Node) newQuota() *quota.Quota {
	return quota.New(quota.Options{
		Cluster: n.o.Settings.Name,
		Node:    n.self.Node,
		Run:     n.self.Run,
		Asker:   (*asker)(n),
		Nodes:   func() int { return len(n.members.Nodes()) + 1 },
	})
}

// Reach implements [limits.Source].
func (n *Node) Reach(ctx context.Context) error { return n.quota.Reach(ctx) }

// Lease implements [limits.Source].
func (n *Node) Lease(ctx context.Context, c limits.Claim) (limits.Lease, error) {
	return n.quota.Lease(ctx, c)
}

// asker sends requests to a hub, or to JetStream directly in a cluster without hubs.
type asker Node

// Ask implements [quota.Asker].
func (a *asker) Ask(ctx context.Context, subject string, header map[string]string, data []byte) ([]byte, error) {
	if name := a.o.Settings.Name; a.o.Settings.Join != "" {
		subject = wire.Subjects{Cluster: name}.ToHub(quota.Operation(name, subject), a.self.Node)
	}
	l := a.link.Load()
	if l == nil {
		return nil, fmt.Errorf("%w: this node has not joined the cluster yet", link.ErrUnsent)
	}
	return l.Ask(ctx, subject, header, data)
}
