package hosts

import (
	"errors"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

func TestSplitRemote(t *testing.T) {
	s := status.Status{
		Cluster: &status.Cluster{
			Node:  "web",
			Nodes: []status.Node{{Name: "gpu1", Approvals: 2}, {Name: "laptop", Approvals: 1}},
		},
		Extensions: []status.Extension{{ID: "gpu1.notes", Nodes: []string{"gpu1"}}, {ID: "notes"},
			// servers of an extension of this host called laptop
			{ID: "laptop.server"}, {ID: "laptop.shared", Nodes: []string{"gpu1"}}},
	}
	for id, want := range map[string][2]string{
		"gpu1.notes":        {"gpu1", "notes"},
		"gpu1.search":       {"gpu1", "search"},
		"gpu1.owner.server": {"gpu1", "owner.server"},
		"laptop.other":      {"laptop", "other"},
		"notes":             {},
		"gpu2.notes":        {},
		"web.notes":         {},
		"laptop.server":     {},
		"laptop.shared":     {},
		"":                  {},
		".":                 {},
	} {
		node, remoteID, ok := SplitRemote(s, id)
		if ok != (want[0] != "") || ok && (node != want[0] || remoteID != want[1]) {
			t.Errorf("%q: %q, %q, %v", id, node, remoteID, ok)
		}
	}
	if n := RemoteApprovals(s.Cluster); n != 3 {
		t.Errorf("%d requests wait elsewhere", n)
	}
	s.Cluster = nil
	if _, _, ok := SplitRemote(s, "gpu1.notes"); ok || RemoteApprovals(nil) != 0 {
		t.Error("there is a node without a cluster")
	}
}

// The next command after an error of another node names that node.
func TestRemoteError(t *testing.T) {
	untrusted := &protocol.Error{Kind: protocol.Untrusted, Extension: "notes", Message: "node gpu1: nobody has agreed"}
	got, ok := errors.AsType[*console.Error](RemoteError("gpu1", untrusted))
	if !ok || got.Hint != "exthost trust notes, at node gpu1" || got.Code != console.ExitDenied ||
		got.Text != "notes: node gpu1: nobody has agreed (untrusted)" {
		t.Errorf("%+v", got)
	}
	for _, err := range []error{nil, errors.New("any"), &protocol.Error{Kind: protocol.Rejected, Message: "no"}} {
		if got := RemoteError("gpu1", err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
	if RemoteCommand("a\nb", "gpu1") != `a\u000ab, at node gpu1` || RemoteCommand("", "gpu1") != "" ||
		RemoteCommand("exthost status", "") != "exthost status" {
		t.Error("a command that is none, or of this host, is changed, or one has two lines")
	}
}

// An extension of a node that has left is no longer listed: the error names the node.
func TestNodeGone(t *testing.T) {
	s := status.Status{
		Extensions: []status.Extension{{ID: "notes"}, {ID: "web.other"}},
		Cluster:    &status.Cluster{Node: "n1"},
	}
	unknown := &console.Error{Code: console.ExitNotFound, Text: "there is no such extension"}
	for id, remote := range map[string]bool{
		"gpu1.notes":   true,
		"web.nots":     false,
		"notes.server": false,
		"nots":         false,
	} {
		got := NodeGone(s, id, unknown)
		if remote != (got != error(unknown)) ||
			remote && !strings.Contains(got.Error(), "no node gpu1 is in the cluster now") {
			t.Errorf("%s: %v", id, got)
		}
	}
	s.Cluster = nil
	if got := NodeGone(s, "gpu1.notes", unknown); got != error(unknown) {
		t.Error(got)
	}
}
