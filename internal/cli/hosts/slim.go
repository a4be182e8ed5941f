//go:build slim

package hosts

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/protocol"
)

// PolicyKinds are the kinds of policies that the program links in addition to the library's. A slim build has none.
var PolicyKinds exthost.PolicyKinds

var checkCEL func(governance.Spec) []governance.Problem // [lacking] refuses them all

// lacking returns what a configuration asks for and a slim build does not have. A host without it would let calls pass
// that its policies deny.
func lacking(cfg *config.Config) (all []protocol.Diagnostic) {
	add := func(key, where, what, instead string) {
		d := protocol.Diagnostic{
			Level:   protocol.LevelError,
			Code:    string(protocol.ConfigInvalid),
			Message: fmt.Sprintf("%s: this exthost is a slim build, which has no %s", key, what),
			Hint:    "install the whole exthost, or " + instead,
		}
		d.Path = cfg.Origins.File(where)
		_, line, _ := strings.Cut(strings.TrimPrefix(cfg.Origins.Of(where), d.Path), ":")
		d.Line, _ = strconv.Atoi(line)
		all = append(all, d)
	}
	for i, p := range cfg.Plugins {
		key := fmt.Sprintf("plugins[%d]", i)
		switch {
		case p.Builtin == builtin.CEL:
			add(key+".builtin", key+".name", "CEL", "state the policy "+p.Name+" by another builtin")
		case p.Kind == governance.KindGRPC:
			add(key+".kind", key+".name", "policies over gRPC", "make "+p.Name+" a policy of kind native or mcp")
		}
	}
	if cfg.Cluster.Hub.Listen != "" {
		add("cluster.hub", "cluster.hub.listen", "hub", "remove cluster.hub and join another's")
	}
	if cfg.OTel.Endpoint != "" {
		add("otel.endpoint", "otel.endpoint", "traces", "remove otel")
	}
	if key := "server.metrics"; cfg.Server.Metrics && cfg.Origins.Of(key) != "default" {
		add(key, key, "metrics", "set it to false")
	}
	return all
}
