package hub

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Merging records gives the same result in any order, and a revocation stays.
func TestMergeIsOrderIndependent(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	of := func(nodes ...Node) *record { return &record{Name: "main", Nodes: nodes} }
	n1, n2, again := Node{
		Node:    "n1",
		Key:     "U1",
		Invited: at,
	}, Node{Node: "n2", Key: "U2", Invited: at}, Node{Node: "n2", Key: "U3", Invited: at.Add(time.Hour)}
	out := n2
	out.Revoked = at.Add(time.Minute)
	records := []*record{of(n1, n2), of(out), of(again, n1)}
	var results []*record
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0, 1}} {
		r := of()
		for _, i := range order {
			if _, err := r.merge(records[i]); err != nil {
				t.Fatal(err)
			}
		}
		if changed, err := r.merge(records[0]); changed || err != nil {
			t.Errorf("what is known changes the record: %v", err)
		}
		results = append(results, r)
	}
	for _, r := range results {
		if diff := cmp.Diff(of(n1, out, again), r); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := of().merge(&record{Name: "other", Nodes: []Node{n1}}); err == nil {
		t.Error("the record of another cluster is taken over")
	}
	many := of()
	for i := range 2*maxNodes + 1 {
		many.Nodes = append(many.Nodes, Node{Node: "n", Key: time.Duration(i).String()})
	}
	r := of(n1)
	gone := n1
	gone.Revoked = at
	many.Nodes = append(many.Nodes, gone)
	if _, err := r.merge(many); err == nil || len(r.Nodes) != 2*maxNodes || r.find("n1") != nil {
		t.Errorf("%d invitations: %v", len(r.Nodes), err)
	}
}
