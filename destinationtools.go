package exthost

import (
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// naming is how policies know the tools of a destination.
type naming struct {
	byTool map[string]string
	taken  map[string]bool
}

// learn takes the names of what an instance offers.
func (b *bridge) learn(offered []protocol.Tool) {
	n := &naming{byTool: make(map[string]string, len(offered)), taken: make(map[string]bool, len(offered))}
	for _, t := range offered {
		if name, _, ok := tools.Register(b.name, t.Name, func(name string) bool { return n.taken[name] }); ok {
			n.byTool[t.Name], n.taken[name] = name, true
		}
	}
	b.names.Store(n)
}

// canonical is the registered name of one of the destination's tools. One that it
// has not listed gets none that another may have.
func (b *bridge) canonical(tool string) string {
	n := b.names.Load()
	if n == nil {
		n = new(naming)
	}
	if name := n.byTool[tool]; name != "" {
		return name
	}
	plain := "ext_" + b.name + "_" + tool
	name, _, _ := tools.Register(b.name, tool, func(name string) bool { return name != plain || n.taken[name] })
	return name
}

// visible takes what the caller may not see out of a list of tools.
func (r *routed) visible(result json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if err := json.Unmarshal(rawjson.Get(result, "tools"), &list); err != nil {
		return result
	}
	all := len(list)
	list = slices.DeleteFunc(list, func(tool json.RawMessage) bool {
		name, _ := rawjson.Text(rawjson.Get(tool, "name"))
		return !r.gen.policy.Visible(r.exchange.Caller, r.exchange.Extension, r.target.bridge.canonical(name)) || r.gen.unpinned(r.target, tool)
	})
	if len(list) == all {
		return result
	}
	seen, err := json.Marshal(list)
	if err != nil {
		return result
	}
	return rawjson.Set(result, "tools", seen)
}
