// Package overrides turns EXTHOST_* variables and flags into trees to lay over configuration files.
package overrides

import (
	"reflect"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/strict"
)

// Flag is a command-line flag with its values.
type Flag struct {
	Name   string   // as written: --listen
	Key    string   // the key that it sets: server.listen
	Values []string // one, or more for a list
}

// Variables returns the tree of EXTHOST_* variables: EXTHOST_SERVER_LISTEN sets server.listen, and so on for
// known, the scalars and lists of every configuration. EXTHOST_TRUST sets extensions.trust. Empty variables are
// ignored; variables that begin like a section but set nothing are reported.
func Variables(environ map[string]string, known []strict.Leaf, sections []string, report *strict.Report) *strict.Node {
	root := &strict.Node{Kind: strict.Map}
	names := map[string]bool{}
	for _, leaf := range known {
		name := "EXTHOST_" + strings.ToUpper(strings.ReplaceAll(leaf.Path, ".", "_"))
		names[name] = true
		if value := environ[name]; value != "" {
			set(root, leaf.Path,
				&strict.Node{Pos: strict.Pos{Source: "env " + name}, Kind: strict.String, Text: value, Loose: true})
		}
	}
	if value := environ["EXTHOST_TRUST"]; value != "" {
		set(root, "extensions.trust",
			&strict.Node{Pos: strict.Pos{Source: "env EXTHOST_TRUST"}, Kind: strict.String, Text: value, Loose: true})
	}
	warnUnknown(environ, names, sections, report)
	return root
}

// Sections returns the top-level keys of t in the spelling of variables.
func Sections(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(strings.ToUpper(t.Field(i).Tag.Get("json")), ",")
	}
	return names
}

// warnUnknown reports variables EXTHOST_SECTION... that set nothing. Other EXTHOST_ variables have other readers.
func warnUnknown(environ map[string]string, known map[string]bool, sections []string, report *strict.Report) {
	var names, unknown []string
	for name := range known {
		names = append(names, name)
	}
	for name := range environ {
		section, _, ok := strings.Cut(strings.TrimPrefix(name, "EXTHOST_"), "_")
		if ok && strings.HasPrefix(name, "EXTHOST_") && !known[name] && slices.Contains(sections, section) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(names)
	slices.Sort(unknown)
	for _, name := range unknown {
		report.Warn(strict.Pos{Source: "env " + name}, strict.DidYouMean(name, names), "sets nothing")
	}
}

// Flags returns the tree of the flags.
func Flags(flags []Flag, known []strict.Leaf) *strict.Node {
	lists := map[string]bool{}
	for _, leaf := range known {
		lists[leaf.Path] = leaf.Type.Kind() == reflect.Slice
	}
	root := &strict.Node{Kind: strict.Map}
	for _, flag := range flags {
		pos := strict.Pos{Source: "flag " + flag.Name}
		value := &strict.Node{Pos: pos, Kind: strict.List}
		for _, text := range flag.Values {
			value.Items = append(value.Items, &strict.Node{Pos: pos, Kind: strict.String, Text: text, Loose: true})
		}
		if !lists[flag.Key] && len(value.Items) == 1 {
			value = value.Items[0]
		}
		set(root, flag.Key, value)
	}
	return root
}

// set stores value at a dotted path below n.
func set(n *strict.Node, path string, value *strict.Node) {
	key, rest, deeper := strings.Cut(path, ".")
	i := slices.IndexFunc(n.Fields, func(f strict.Field) bool { return f.Key == key })
	if i < 0 {
		i = len(n.Fields)
		n.Fields = append(n.Fields,
			strict.Field{Key: key, Pos: value.Pos, Value: &strict.Node{Pos: value.Pos, Kind: strict.Map}})
	}
	if deeper {
		set(n.Fields[i].Value, rest, value)
		return
	}
	n.Fields[i].Value = value
}
