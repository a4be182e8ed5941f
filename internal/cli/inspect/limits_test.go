package inspect

import (
	"strings"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/status"
)

// Only counting policies that apply to an extension with replicas at other nodes are reported.
func TestCheckReportsLimitsOfReplicas(t *testing.T) {
	s := status.Status{Extensions: []status.Extension{
		{ID: "search", Tools: []string{"ext_search_query"}, Nodes: []string{"a", "b"}},
		{ID: "notes", Tools: []string{"ext_notes_add"}},
		{ID: "gpu1.draw", Tools: []string{"ext_gpu1_draw_paint"}, Nodes: []string{"gpu1"}}}}
	findings := localLimits([]governance.Spec{
		{Name: "all", Builtin: "rate_limit"},
		{Name: "search", Builtin: "budget", Match: governance.Match{Tools: []string{"ext_search_*"}}},
		{Name: "notes", Builtin: "budget", Match: governance.Match{Extensions: []string{"notes"}}},
		{Name: "gpu1", Builtin: "rate_limit", Match: governance.Match{Extensions: []string{"gpu1.*"}}},
		{Name: "off", Builtin: "budget", Disabled: true}, {Name: "loop", Builtin: "loop"}}, s)
	var named []string
	for _, f := range findings {
		named = append(named, f.Check)
		if f.Result != "ok" || !strings.Contains(f.Detail, "1 extension at other nodes too (search)") ||
			len(f.Hints) == 0 {
			t.Errorf("%+v", f)
		}
	}
	if got := strings.Join(named, ", "); got != "policy all, policy search" {
		t.Errorf("findings of %s", got)
	}
}
