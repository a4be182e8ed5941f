package status

import (
	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/governance/audit"
)

// Approvals are the waiting approval requests of all nodes.
type Approvals struct {
	Requests []approval.Request `json:"approvals"`        // oldest first
	Silent   []Silent           `json:"silent,omitempty"` // nodes with requests that are not listed
}

// CallRecords are the records of all nodes about a call, those of the caller's node first.
type CallRecords struct {
	Nodes  []Audited `json:"nodes"`
	Silent []Silent  `json:"silent,omitempty"` // nodes whose records are unknown
}

// Audited are the records of one node about a call.
type Audited struct {
	Node    string         `json:"node,omitempty"` // "": the host is in no cluster
	Records []audit.Record `json:"records"`        // oldest first
}

// Silent is a node without an answer, or whose answer is incomplete, and the reason.
type Silent struct {
	Node    string `json:"node"`
	Reason  string `json:"reason"`
	Partial bool   `json:"-"` // the node answered, but not with everything
}
