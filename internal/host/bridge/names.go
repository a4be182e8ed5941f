package bridge

import (
	"strings"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// toolNames are the registered names that policies use for the tools of a destination.
type toolNames struct {
	byTool map[string]string
	taken  map[string]bool
}

func newToolNames(destination string, offered []protocol.Tool) *toolNames {
	n := &toolNames{byTool: make(map[string]string, len(offered)), taken: make(map[string]bool, len(offered))}
	for _, t := range offered {
		if name, _, ok := tools.Register(destination, t.Name, func(name string) bool { return n.taken[name] }); ok {
			n.byTool[t.Name], n.taken[name] = name, true
		}
	}
	return n
}

// ToolName returns the registered name of a tool of the destination. An unlisted tool gets a name that no listed
// tool has.
func (d *Destination) ToolName(tool string) string {
	n := d.names.Load()
	if n == nil {
		n = new(toolNames)
	}
	if name := n.byTool[tool]; name != "" {
		return name
	}
	name, _, _ := tools.Register(d.ID(), tool,
		func(name string) bool { return n.taken[name] || !strings.HasSuffix(name, "_"+tool) })
	return name
}
