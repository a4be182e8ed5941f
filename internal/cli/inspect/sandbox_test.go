package inspect

import (
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/status"
)

// The check fails for an extension that cannot start because of the kernel, and reports what another lacks.
func TestCheckReportsSandboxes(t *testing.T) {
	lacks := []string{"files: Landlock has version 0 here"}
	s := status.Status{Extensions: []status.Extension{
		{ID: "free"},
		{ID: "held", Sandbox: &status.Sandbox{Holds: []string{"files", "network"}}},
		{ID: "strict", Sandbox: &status.Sandbox{Holds: []string{"network"}, Lacks: lacks}},
		{ID: "content", Sandbox: &status.Sandbox{Holds: []string{"network"}, Lacks: lacks, BestEffort: true}},
	}}
	all := sandboxes(s, sandbox.Protection{Holds: []string{"network"}, Lacks: lacks})
	want := []struct{ result, says string }{
		{"ok", "this system enforces network"},
		{"fail", "strict asks for more than this system enforces, and does not start: files: Landlock"},
		{"ok", "content runs with less than it asks for (best_effort): files: Landlock"},
	}
	if len(all) != len(want) || all[0].Hints[0] != "NOT enforced: "+lacks[0] {
		t.Fatalf("%+v", all)
	}
	for i, w := range want {
		if all[i].Result != w.result || !strings.HasPrefix(all[i].Detail, w.says) {
			t.Errorf("%+v", all[i])
		}
	}
	if none := sandboxes(status.Status{},
		sandbox.Protection{Lacks: lacks}); none[0].Detail != "this system enforces no sandbox" {
		t.Errorf("%+v", none)
	}
}
