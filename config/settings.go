package config

import (
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/strict"
)

// variables returns the tree that EXTHOST_* variables state: EXTHOST_SERVER_LISTEN is
// server.listen, and so on for every scalar and list outside maps and lists of
// maps. EXTHOST_TRUST is extensions.trust. An empty variable states nothing.
func (l *loader) variables() *strict.Node {
	root := &strict.Node{Kind: strict.Map}
	known := map[string]bool{}
	for _, leaf := range settable() {
		name := "EXTHOST_" + strings.ToUpper(strings.ReplaceAll(leaf.Path, ".", "_"))
		known[name] = true
		if value := l.environ[name]; value != "" {
			set(root, leaf.Path, &strict.Node{Pos: strict.Pos{Source: "env " + name}, Kind: strict.String, Text: value, Loose: true})
		}
	}
	if value := l.environ["EXTHOST_TRUST"]; value != "" {
		set(root, "extensions.trust", &strict.Node{Pos: strict.Pos{Source: "env EXTHOST_TRUST"}, Kind: strict.String, Text: value, Loose: true})
	}
	l.warnUnknown(known)
	return root
}

// warnUnknown reports variables that begin with EXTHOST_ and the name of a section,
// but set nothing. Other EXTHOST_ variables are not the configuration's.
func (l *loader) warnUnknown(known map[string]bool) {
	var names, unknown []string
	for name := range known {
		names = append(names, name)
	}
	for name := range l.environ {
		section, _, ok := strings.Cut(strings.TrimPrefix(name, "EXTHOST_"), "_")
		if ok && strings.HasPrefix(name, "EXTHOST_") && !known[name] && slices.Contains(sections(), section) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(names)
	slices.Sort(unknown)
	for _, name := range unknown {
		l.report.Warn(strict.Pos{Source: "env " + name}, strict.DidYouMean(name, names), "sets nothing")
	}
}

// sections returns the top-level keys as variables spell them.
func sections() []string {
	t := reflect.TypeFor[Config]()
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = strings.ToUpper(t.Field(i).Tag.Get("json"))
	}
	return names
}

// settable returns every scalar and list of scalars that every configuration has.
func settable() []strict.Leaf {
	return strict.Leaves(Default(), func(string, string) bool { return false })
}

// flags returns the tree that the flags state.
func (l *loader) flags() *strict.Node {
	lists := map[string]bool{}
	for _, leaf := range settable() {
		lists[leaf.Path] = leaf.Type.Kind() == reflect.Slice
	}
	root := &strict.Node{Kind: strict.Map}
	for _, flag := range l.options.Flags {
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

// set puts value at a dotted path below n.
func set(n *strict.Node, path string, value *strict.Node) {
	key, rest, deeper := strings.Cut(path, ".")
	i := slices.IndexFunc(n.Fields, func(f strict.Field) bool { return f.Key == key })
	if i < 0 {
		i = len(n.Fields)
		n.Fields = append(n.Fields, strict.Field{Key: key, Pos: value.Pos, Value: &strict.Node{Pos: value.Pos, Kind: strict.Map}})
	}
	if deeper {
		set(n.Fields[i].Value, rest, value)
		return
	}
	n.Fields[i].Value = value
}

// safeVariable is read before the first file, because it says which files are read.
const safeVariable = "EXTHOST_EXTENSIONS_SAFE_DIRECTORIES"

// noteSafe takes over from the layers so far whose files count. The variable replaces what
// the files state, as it does for every key.
func noteSafe(l *loader) {
	l.owners.Safe = l.cfg.Extensions.SafeDirectories
	text := l.environ[safeVariable]
	if text == "" {
		return
	}
	l.owners.Safe = nil
	for _, dir := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == os.PathListSeparator }) {
		l.owners.Safe = append(l.owners.Safe, against(l.options.Dir, strings.TrimSpace(dir)))
	}
}
