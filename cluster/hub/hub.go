// Package hub runs a NATS server for a cluster of hosts, and decides which nodes may connect.
package hub

import (
	"log/slog"
	"time"

	"github.com/exthost/exthost/cluster/internal/quota"
	"github.com/exthost/exthost/cluster/internal/wire"
)

// Options configures a hub.
type Options struct {
	Dir    string       // created by [Init]
	Listen string       // host:port for nodes; port 0 picks a free port
	Routes string       // host:port for other hubs; "": no other hubs
	Peers  []string     // host:port of the other hubs' Routes; may include this hub's
	Store  string       // directory of this hub alone for the counters of shared limits; "": no counters
	Log    *slog.Logger // nil: discard
}

// The limits of a server.
const (
	maxPayload     = 1 << 20 // bytes per message
	maxConnections = 10_000
	maxUserSubs    = 64 // per node

	// how long Open waits until the server accepts connections; loading the counters is slow on a busy machine
	startTimeout     = 30 * time.Second
	handshakeTimeout = 5 * time.Second // per connection
	readyStep        = 20 * time.Millisecond
	followEach       = 250 * time.Millisecond // between checks of the files
	tellEach         = 2 * time.Second        // between exchanges of records
)

// Permissions returns the subjects that a node needs to publish and subscribe to. If no others are granted, the sender
// that a subject names is genuine. The only part of JetStream that these subjects reach is the counters of shared
// limits.
func Permissions(cluster, node string) (publish, subscribe []string) {
	s := wire.Subjects{Cluster: cluster}
	return append(s.Publish(node), quota.Publish(cluster)...), s.Subscribe(node)
}

// CountersSize bounds the size of all counters of shared limits, in bytes.
const CountersSize = quota.MaxBytes

// Counters returns the JetStream stream for the counters of shared limits with the given number of replicas,
// and the name of its key-value bucket.
func Counters(cluster string, replicas int) (stream quota.Config, bucket string) {
	return quota.Stream(cluster, replicas), quota.Bucket(cluster)
}
