package hub

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Node is one invitation.
type Node struct {
	Node    string    `json:"node"`
	Key     string    `json:"key"` // public key of the node's user
	Invited time.Time `json:"invited"`
	Revoked time.Time `json:"revoked,omitzero"` // zero: the node may connect
}

// record lists the invitations of a cluster. Hubs merge each other's records, in any order.
type record struct {
	Name  string   `json:"name"`
	URLs  []string `json:"urls"` // hub addresses in invitations
	Nodes []Node   `json:"nodes"`
}

// maxNodes bounds the invitations of a cluster, including revoked ones. A merge of two records may contain
// twice as many, which still fit in one message.
const maxNodes = 2048

// find returns the valid invitation of a node, or nil.
func (r *record) find(node string) *Node {
	for i := range r.Nodes {
		if n := &r.Nodes[i]; n.Node == node && n.Revoked.IsZero() {
			return n
		}
	}
	return nil
}

// merge adds the invitations and revocations of other, and reports whether r has changed. If two hubs invited one node
// while they could not reach each other, both invitations stay valid. merge leaves out invitations beyond 2*maxNodes
// and returns an error.
func (r *record) merge(other *record) (changed bool, err error) {
	if other.Name != r.Name {
		return false, fmt.Errorf("a hub is of the cluster %q", other.Name)
	}
	at := make(map[string]int, len(r.Nodes))
	for i := range r.Nodes {
		at[r.Nodes[i].Key] = i
	}
	for _, n := range other.Nodes {
		i, known := at[n.Key]
		switch {
		case !known && len(r.Nodes) >= 2*maxNodes:
			err = fmt.Errorf("there are more than %d invitations, and that of node %s is left out: begin a new cluster",
				2*maxNodes, n.Node)
		case !known:
			r.Nodes, changed = append(r.Nodes, n), true
		case r.Nodes[i].Revoked.IsZero() && !n.Revoked.IsZero():
			r.Nodes[i].Revoked, changed = n.Revoked, true
		}
	}
	r.sort()
	return changed, err
}

func (r *record) sort() {
	slices.SortFunc(r.Nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), a.Invited.Compare(b.Invited), cmp.Compare(a.Key, b.Key))
	})
}

// revoked returns the keys of revoked invitations.
func (r *record) revoked() (keys []string) {
	for i := range r.Nodes {
		if !r.Nodes[i].Revoked.IsZero() {
			keys = append(keys, r.Nodes[i].Key)
		}
	}
	return keys
}

func (r *record) bytes() []byte {
	data, _ := json.MarshalIndent(r, "", "  ") // strings and times always encode
	return append(data, '\n')
}
