package manifest

import (
	"maps"
	"regexp"
	"slices"

	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/protocol"
)

var placeholder = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_.-]*)\}`)

// placeholders holds the {placeholders} of a tool's command line against the
// properties of its schema: one that nobody fills would reach the program, or make
// a model be asked for what it cannot know.
func (v *validator) placeholders(i int, tool ToolSpec) {
	properties, _ := tool.InputSchema["properties"].(map[string]any)
	known := slices.Sorted(maps.Keys(properties))
	for _, word := range tool.Command[min(1, len(tool.Command)):] {
		for _, m := range placeholder.FindAllStringSubmatch(word, -1) {
			whole, is := m[0] == word, slices.Contains(known, m[1])
			switch {
			case whole && !is && len(known) > 0:
				hint := "add the property, or take the word out"
				if near := nearest.Of(m[1], known); near != "" {
					hint = "did you mean {" + near + "}?"
				}
				v.errorf(at("tools", i, "command"), hint, "tools[%d].command: %s is no property of input_schema", i, word)
			case !whole && is:
				v.Diagnose(protocol.LevelWarn, CodeInvalid, v.find("tools", i, "command").Pos, "make it a word of its own",
					"tools[%d].command: %s inside %q is not replaced", i, m[0], word)
			}
		}
	}
}
