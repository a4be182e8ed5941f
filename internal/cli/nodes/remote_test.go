package nodes

import (
	"testing"

	"github.com/exthost/exthost/status"
)

func TestRemote(t *testing.T) {
	s := status.Status{
		Cluster: &status.Cluster{Node: "web", Nodes: []status.Node{{Name: "gpu1", Approvals: 2}, {Name: "laptop", Approvals: 1}}},
		Extensions: []status.Extension{{ID: "gpu1.notes", Nodes: []string{"gpu1"}}, {ID: "notes"},
			{ID: "laptop.server"}, {ID: "laptop.shared", Nodes: []string{"gpu1"}}}, // servers of an extension here that is called laptop
	}
	for id, want := range map[string][2]string{
		"gpu1.notes": {"gpu1", "notes"}, "gpu1.search": {"gpu1", "search"}, "gpu1.owner.server": {"gpu1", "owner.server"}, "laptop.other": {"laptop", "other"},
		"notes": {}, "gpu2.notes": {}, "web.notes": {}, "laptop.server": {}, "laptop.shared": {}, "": {}, ".": {},
	} {
		node, there, ok := Remote(s, id)
		if ok != (want[0] != "") || ok && (node != want[0] || there != want[1]) {
			t.Errorf("%q: %q, %q, %v", id, node, there, ok)
		}
	}
	if n := Waiting(s.Cluster); n != 3 {
		t.Errorf("%d requests wait elsewhere", n)
	}
	s.Cluster = nil
	if _, _, ok := Remote(s, "gpu1.notes"); ok || Waiting(nil) != 0 {
		t.Error("there is a node without a cluster")
	}
}
