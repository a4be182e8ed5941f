package builtin

import (
	"fmt"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
)

// Pattern is a glob in the spec of a policy.
type Pattern struct {
	Field string // the dotted key within the spec: "config.rules[0].tools"
	Of    string // the names that it matches: tools, extensions or callers; see also [Selector]
	Glob  string
}

// Selector is a policy whose config selects in a way that the policy alone reads.
type Selector interface {
	// Patterns returns what the config compares with: names of tools, extensions and callers, and, as Of arguments, the
	// arguments that it reads.
	Patterns() []Pattern
}

// Patterns returns the globs of s that select tools, extensions and callers: those of match,
// and those in the config of a built-in policy.
func Patterns(s governance.Spec) (list []Pattern) {
	add := func(field, of string, globs []string) {
		for _, glob := range globs {
			list = append(list, Pattern{field + "." + of, of, glob})
		}
	}
	add("match", "tools", s.Match.Tools)
	add("match", "extensions", s.Match.Extensions)
	add("match", "callers", s.Match.Callers)
	switch s.Builtin {
	case "access":
		var c accessConfig
		_ = settings.Decode(s.Config, &c) // was checked
		for i, r := range c.Rules {
			place := fmt.Sprintf("config.rules[%d]", i)
			add(place, "tools", r.Tools)
			add(place, "extensions", r.Extensions)
			add(place, "callers", r.Callers)
		}
	case "schema":
		var c schemaConfig
		_ = settings.Decode(s.Config, &c)
		for i, entry := range c.Schemas {
			add(fmt.Sprintf("config.schemas[%d]", i), "tools", entry.Tools)
		}
	}
	return list
}
