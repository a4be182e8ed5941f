package status

import "time"

// Cluster is what a host knows of its cluster.
type Cluster struct {
	Name   string `json:"name"`
	Node   string `json:"node"`             // this one
	Server string `json:"server,omitempty"` // that the host is connected to; "" while it is not
	TLS    bool   `json:"tls"`
	// RTT is how long a message to the server and back takes, in nanoseconds; 0 is not known.
	RTT    time.Duration `json:"rtt,omitempty"`
	Reason string        `json:"reason,omitempty"` // why the host is not connected
	Nodes  []Node        `json:"nodes"`            // the others, by name
}

// The states of a node.
const (
	NodeReady   = "ready"
	NodeAway    = "away"    // does not answer; its tools stay listed for a while
	NodeLeaving = "leaving" // takes no more calls
)

// Node is another node of the cluster.
type Node struct {
	Name    string        `json:"name"`
	Run     string        `json:"run"`
	State   string        `json:"state"`
	Since   time.Time     `json:"since"` // of the state
	Version string        `json:"version"`
	RTT     time.Duration `json:"rtt,omitempty"`   // to the node and back, in nanoseconds; 0 is not known
	Clock   time.Duration `json:"clock,omitempty"` // how far the node's clock is ahead, in nanoseconds
	Shares  []Shared      `json:"shares"`
	Tools   int           `json:"tools"`
	// Approvals is how many approval requests wait at the node.
	Approvals int `json:"approvals,omitempty"`

	Out    uint64 `json:"calls_out"` // to the node
	In     uint64 `json:"calls_in"`  // from the node
	Failed uint64 `json:"failed"`    // of those out, without an answer of the extension
	Note   string `json:"note,omitempty"`
}

// Shared is an extension that a node shares.
type Shared struct {
	Extension string `json:"extension"`
	As        string `json:"as"` // mine or replicas
	State     string `json:"state"`
}
