package hub

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Node is one invitation of a node.
type Node struct {
	Node    string    `json:"node"`
	Key     string    `json:"key"` // the public key of its user
	Invited time.Time `json:"invited"`
	Revoked time.Time `json:"revoked,omitzero"` // zero: it may connect
}

// record is what all hubs of a cluster know of its nodes. Two of them merge into one that has
// what either says, whichever is first.
type record struct {
	Name  string   `json:"name"`
	URLs  []string `json:"urls"` // of invitations
	Nodes []Node   `json:"nodes"`
}

// maxNodes bounds the invitations of a cluster, those that are revoked included. Hubs that made
// theirs apart may know twice as many, which are still one message.
const maxNodes = 2048

// find returns the invitation of a node that holds; nil: there is none.
func (r *record) find(node string) *Node {
	for i := range r.Nodes {
		if n := &r.Nodes[i]; n.Node == node && n.Revoked.IsZero() {
			return n
		}
	}
	return nil
}

// merge takes over what other says of nodes, and reports whether that was new. Of two invitations
// under one name that hold, as hubs that did not reach each other make them, both do. What is beyond
// the bound is left out with an error, and all else is taken over.
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

// revoked returns the keys that must not connect.
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
