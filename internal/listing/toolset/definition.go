// Package toolset decides which tools, prompts and resources a client sees, and under which names.
package toolset

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Definition is a toolset as a configuration states it.
type Definition struct {
	// patterns of what clients see: the names of tools and prompts, such as ext_git_log, and for a resource its URI
	// behind ext_git_; default: everything
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"` // patterns of what clients do not see, even if included
	// risks of the tools that clients see: read, write, destroy; tools of destinations, whose risks are not known,
	// count as destroy; default: all
	Risk []protocol.Risk `json:"risk,omitempty"`
	// patterns of the names of skills that clients see, such as git-*; default: the skills whose files include shows
	Skills []string `json:"skills,omitempty"`
	// the prefix of the names of tools and prompts in place of ext_; "": none; default ext_
	Prefix *string `json:"prefix,omitempty"`
	// descriptions that replace those of tools, by the name of the tool, such as ext_git_log
	Describe map[string]string `json:"describe,omitempty"`
	// tools that clients see in another shape, by the name of the tool, such as ext_git_log
	Tools map[string]ShownTool `json:"tools,omitempty"`
}

// Problem is an error in the toolsets of a configuration.
type Problem struct {
	Key     string // configuration key, such as toolsets.review.include
	Message string
	Hint    string // what to do; "" if Message says it
}

// nativePrefix begins the registered names of all extensions.
const nativePrefix = "ext_"

const (
	maxPatterns = 1000
	maxPrefix   = 32 // bytes
)

// checkName returns why name is invalid for a toolset, "" if it is valid. The name is part of a URL path.
func checkName(name string) string {
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, odd) {
		return fmt.Sprintf("%q is not a toolset's name: up to 64 letters, digits, - and _", name)
	}
	return ""
}

// Check returns the problems with the toolsets of a configuration, and with other keys that refer to a toolset. named
// has the toolset's name by such a key, "" for none.
func Check(all map[string]Definition, named map[string]string) (list []Problem) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d, key := all[name], root+name
		if wrong := checkName(name); wrong != "" {
			list = append(list, Problem{key, wrong, ""})
		}
		for _, p := range d.validate() {
			list = append(list, Problem{key + "." + p.Key, p.Message, p.Hint})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(named)) {
		if _, there := all[named[key]]; named[key] != "" && !there {
			list = append(list, Problem{key, protocol.Reason(Unknown(named[key], all)), ""})
		}
	}
	return list
}

// root begins the keys of toolsets.
const root = "toolsets."

// validate returns the problems with the fields of d.
func (d *Definition) validate() (list []Problem) {
	for _, side := range []struct {
		field    string
		patterns []string
	}{{"include", d.Include}, {"exclude", d.Exclude}, {"skills", d.Skills}} {
		if side.patterns != nil && len(side.patterns) == 0 && side.field != "exclude" {
			list = append(list,
				Problem{side.field, "is empty", "leave it out for everything, or state exclude: [\"*\"] for nothing"})
		}
		if len(side.patterns) > maxPatterns {
			list = append(list,
				Problem{side.field, fmt.Sprintf("%d patterns are more than %d", len(side.patterns), maxPatterns), ""})
		}
		for _, p := range side.patterns {
			if err := glob.Check(p); err != nil {
				list = append(list, Problem{side.field, err.Error(), "such as ext_git_*"})
			}
		}
	}
	if d.Prefix != nil && *d.Prefix != "" && (len(*d.Prefix) > maxPrefix || checkName(*d.Prefix) != "") {
		list = append(list, Problem{
			"prefix",
			fmt.Sprintf("%q cannot begin a name: up to %d letters, digits, - and _", *d.Prefix, maxPrefix),
			"",
		})
	}
	if d.Risk != nil && len(d.Risk) == 0 {
		list = append(list, Problem{"risk", "is empty", "leave it out for every risk, or state such as [read]"})
	}
	return slices.Concat(list, d.validateTools(), d.validateDescribe())
}

func (d *Definition) validateDescribe() (list []Problem) {
	for _, name := range slices.Sorted(maps.Keys(d.Describe)) {
		if text := d.Describe[name]; strings.TrimSpace(text) == "" || len(text) > tools.MaxDescription {
			list = append(list,
				Problem{
					"describe",
					fmt.Sprintf("the description of %s has %d bytes, at most %d are allowed, and one that a model "+
						"can read", name, len(text), tools.MaxDescription),
					"",
				})
		}
	}
	return list
}

// Unknown returns the error for an unknown toolset.
func Unknown[T any](name string, known map[string]T) error {
	if near := text.Nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
		return protocol.Errorf(protocol.ToolNotFound, "there is no toolset %q, did you mean %q?", name, near)
	}
	return protocol.Errorf(protocol.ToolNotFound, "there is no toolset %q: toolsets of the configuration states them",
		name)
}

// Keep protects toolsets from later files: it restores in now the toolsets of before, and removes new ones whose
// names are in named, the toolsets that earlier files refer to without stating them. It returns the keys of the
// restored and removed toolsets.
func Keep(now, before map[string]Definition, named map[string]string) (kept []string) {
	names := slices.Collect(maps.Values(named))
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, defined := before[name]
		if reflect.DeepEqual(now[name], was) && defined || !defined && !slices.Contains(names, name) {
			continue
		}
		if now[name] = was; !defined {
			delete(now, name)
		}
		kept = append(kept, root+name)
	}
	return kept
}
