package config

import (
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/strict"
)

// settings lays EXTHOST_* variables and flags over the files.
func (l *loader) settings() {
	known := strict.Leaves(Default(), func(string, string) bool { return false })
	l.layer(l.variables(known))
	l.layer(flagTree(l.options.Flags, known))
}

// variables returns the tree of EXTHOST_* variables: EXTHOST_SERVER_LISTEN sets server.listen. known are the scalars
// and lists of every configuration; each can be set like that. EXTHOST_TRUST sets extensions.trust. Empty variables are
// ignored; variables that begin like a section but set nothing are reported.
func (l *loader) variables(known []strict.Leaf) *strict.Node {
	root := &strict.Node{Kind: strict.Map}
	var names []string
	state := func(name, path string) {
		if value := l.environ[name]; value != "" {
			pos := strict.Pos{Source: "env " + name}
			setAt(root, path, &strict.Node{Pos: pos, Kind: strict.String, Text: value, Loose: true})
		}
	}
	for _, leaf := range known {
		name := "EXTHOST_" + strings.ToUpper(strings.ReplaceAll(leaf.Path, ".", "_"))
		names = append(names, name)
		state(name, leaf.Path)
	}
	state("EXTHOST_TRUST", "extensions.trust")
	l.warnUnknown(names)
	return root
}

// warnUnknown reports variables EXTHOST_SECTION... that set nothing. Other EXTHOST_ variables are not meant for the
// configuration.
func (l *loader) warnUnknown(known []string) {
	var sections, unknown []string
	for _, key := range strict.Keys(reflect.TypeFor[Config]()) {
		sections = append(sections, strings.ToUpper(key))
	}
	for name := range l.environ {
		rest, ours := strings.CutPrefix(name, "EXTHOST_")
		section, _, ok := strings.Cut(rest, "_")
		if ours && ok && slices.Contains(sections, section) && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(known)
	slices.Sort(unknown)
	for _, name := range unknown {
		l.report.Warn(strict.Pos{Source: "env " + name}, strict.DidYouMean(name, known), "sets nothing")
	}
}

// flagTree returns the tree of the flags.
func flagTree(flags []Flag, known []strict.Leaf) *strict.Node {
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
		setAt(root, flag.Key, value)
	}
	return root
}

// setAt stores value at a dotted path below n.
func setAt(n *strict.Node, path string, value *strict.Node) {
	key, rest, deeper := strings.Cut(path, ".")
	i := slices.IndexFunc(n.Fields, func(f strict.Field) bool { return f.Key == key })
	if i < 0 {
		i = len(n.Fields)
		n.Fields = append(n.Fields,
			strict.Field{Key: key, Pos: value.Pos, Value: &strict.Node{Pos: value.Pos, Kind: strict.Map}})
	}
	if deeper {
		setAt(n.Fields[i].Value, rest, value)
		return
	}
	n.Fields[i].Value = value
}

// safeVariable is read before the first file, since it decides which files are read.
const safeVariable = "EXTHOST_EXTENSIONS_SAFE_DIRECTORIES"

// noteSafe updates the ownership rule from the layers so far. [safeVariable] replaces extensions.safe_directories of
// the files.
func (l *loader) noteSafe() {
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
