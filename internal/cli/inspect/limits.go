package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/status"
)

// localLimits reports the policies that count calls of extensions with replicas at other nodes: each node counts its
// own calls, so callers of several nodes get the limit several times.
func localLimits(policies []governance.Spec, s status.Status) (findings []finding) {
	var replicas []status.Extension
	for _, x := range s.Extensions {
		if len(x.Nodes) > 0 && !strings.HasPrefix(x.ID, x.Nodes[0]+".") {
			replicas = append(replicas, x)
		}
	}
	for _, p := range policies {
		if p.Disabled || p.Builtin != "rate_limit" && p.Builtin != "budget" || builtin.Shares(p) {
			continue
		}
		var ids []string
		for _, x := range replicas {
			fits := func(l glob.List, names ...string) bool {
				return len(l) == 0 || slices.ContainsFunc(names, l.Match)
			}
			if fits(p.Match.Extensions, x.ID) && fits(p.Match.Tools, x.Tools...) {
				ids = append(ids, x.ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		findings = append(findings, finding{
			Check:  "policy " + p.Name,
			Result: "ok",
			Detail: fmt.Sprintf("its counts are those of this node alone: %s at other nodes too (%s)",
				console.Plural(len(ids), "extension"), strings.Join(ids, ", ")),
			Hints: []string{"callers that enter at N nodes have N times its limit: state scope: cluster in its " +
				"config, or divide the limit by the number of nodes where callers enter",
				"a limit on what a machine does belongs on the node that runs the extension"},
		})
	}
	return findings
}
