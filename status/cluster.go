package status

import "time"

// Cluster is a host's view of its cluster.
type Cluster struct {
	Name   string `json:"name"`
	Node   string `json:"node"`             // name of this host's node
	Server string `json:"server,omitempty"` // NATS server that the host is connected to; "" if disconnected
	TLS    bool   `json:"tls"`
	// RTT is the round trip time to the server in nanoseconds; 0 if unknown.
	RTT    time.Duration `json:"rtt,omitempty"`
	Reason string        `json:"reason,omitempty"` // why the host is disconnected
	Nodes  []Node        `json:"nodes"`            // the other nodes, by name
}

// The states of a node.
const (
	NodeReady   = "ready"
	NodeAway    = "away"    // unreachable; its tools stay listed for a while
	NodeLeaving = "leaving" // accepts no more calls
)

// Node is another node of the cluster.
type Node struct {
	Name    string        `json:"name"`
	Run     string        `json:"run"`
	State   string        `json:"state"`
	Since   time.Time     `json:"since"` // when the state began
	Version string        `json:"version"`
	RTT     time.Duration `json:"rtt,omitempty"`   // round trip time to the node in nanoseconds; 0 if unknown
	Clock   time.Duration `json:"clock,omitempty"` // how far the node's clock is ahead, in nanoseconds
	Shares  []Shared      `json:"shares"`
	Tools   int           `json:"tools"`
	// Approvals is the number of pending approval requests at the node.
	Approvals int `json:"approvals,omitempty"`

	Out    uint64 `json:"calls_out"` // calls to the node
	In     uint64 `json:"calls_in"`  // calls from the node
	Failed uint64 `json:"failed"`    // calls of calls_out that ended without an answer of the extension
	Note   string `json:"note,omitempty"`
}

// Shared is an extension that a node shares.
type Shared struct {
	Extension string `json:"extension"`
	As        string `json:"as"` // how it is shared: mine or replicas
	State     string `json:"state"`
}
