// Package hub runs a NATS server for a cluster of hosts, and says who its nodes are.
package hub

import (
	"log/slog"
	"time"

	"github.com/exthost/exthost/cluster/internal/quota"
	"github.com/exthost/exthost/cluster/internal/wire"
)

// Options say where a hub listens.
type Options struct {
	Dir    string       // that [Init] made
	Listen string       // host:port for nodes; port 0 is any free one
	Routes string       // host:port for other hubs; "": there are none
	Peers  []string     // host:port of the other hubs' Routes; the own may be among them
	Store  string       // the directory of the counters of shared limits, of this hub alone; "": there are none
	Log    *slog.Logger // nil: none
}

// The bounds of a server.
const (
	maxPayload     = 1 << 20 // bytes of one message
	maxConnections = 10_000
	maxUserSubs    = 64 // of one node

	// until the server takes connections: on a busy machine it loads its counters for long
	startTimeout     = 30 * time.Second
	handshakeTimeout = 5 * time.Second // of a connection
	readyStep        = 20 * time.Millisecond
	followEach       = 250 * time.Millisecond // how often the files are looked at
	tellEach         = 2 * time.Second        // how often hubs compare who their nodes are
)

// Permissions returns the subjects that a node must be allowed to publish and to subscribe to, and
// no others: they make true who a message says it is from. Of JetStream, they reach the counters of
// shared limits.
func Permissions(cluster, node string) (publish, subscribe []string) {
	s := wire.Subjects{Cluster: cluster}
	return append(s.Publish(node), quota.Publish(cluster)...), s.Subscribe(node)
}

// CountersSize bounds what the counters of shared limits take together, in bytes.
const CountersSize = quota.MaxBytes

// Counters returns the stream of JetStream that holds the counters of shared limits, on so many
// servers, and the name of its key-value bucket.
func Counters(cluster string, replicas int) (stream quota.Config, bucket string) {
	return quota.Stream(cluster, replicas), quota.Bucket(cluster)
}
