// Package hub runs a NATS server for a cluster of hosts, and says who its nodes are.
package hub

import (
	"log/slog"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
)

// Options say where a hub listens.
type Options struct {
	Dir    string       // that [Init] made
	Listen string       // host:port for nodes; port 0 is any free one
	Routes string       // host:port for other hubs; "": there are none
	Peers  []string     // host:port of the other hubs' Routes; the own may be among them
	Log    *slog.Logger // nil: none
}

// The bounds of a server.
const (
	maxPayload     = 1 << 20 // bytes of one message
	maxConnections = 10_000
	maxUserSubs    = 64 // of one node

	readyTimeout = 5 * time.Second
	readyStep    = 20 * time.Millisecond
	followEach   = 250 * time.Millisecond // how often the files are looked at
	tellEach     = 2 * time.Second        // how often hubs compare who their nodes are
)

// Permissions returns the subjects that a node must be allowed to publish and to subscribe to, and
// no others: they make true who a message says it is from.
func Permissions(cluster, node string) (publish, subscribe []string) {
	s := wire.Subjects{Cluster: cluster}
	return s.Publish(node), s.Subscribe(node)
}
