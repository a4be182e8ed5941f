// Package strict reads YAML and TOML into one tree of positioned nodes and decodes
// such trees onto structs, strictly: every unknown key, wrong type and value out
// of range is reported, all at once, each with its place and what to write instead.
//
// Structs carry json tags only. [Decoder] also understands these field tags:
//
//	jsonschema:"enum=a,enum=b,minimum=1,maximum=9"   what the schema says is checked
//	path:"true"     a path, relative to the file that states it
//	secret:"true"   masked by [Leaves] and [Plain]
//	list:"name"     a map that may be written as a list whose elements have a name
package strict

import (
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/exthost/exthost/protocol"
)

// Limits on one file. They hold before a parser sees it, because parsers are
// cheaply brought to use hundreds of megabytes.
const (
	MaxBytes = 1 << 20 // of a file
	maxDepth = 64      // of maps and lists within each other
	maxNodes = 50_000  // of a file, YAML's aliases expanded
	maxParts = 16      // of one dotted TOML key
)

// Pos is where a value is stated: a place in a file, or else a Source.
type Pos struct {
	File         string
	Line, Column int    // 1-based, the column in bytes; 0 when unknown
	Source       string // for values from no file: "flag --listen", "env EXTHOST_LOG_LEVEL"
}

// String renders the place as file:line, or the source.
func (p Pos) String() string {
	switch {
	case p.Source != "":
		return p.Source
	case p.Line > 0:
		return p.File + ":" + strconv.Itoa(p.Line)
	}
	return p.File
}

// Kind is the type of a node.
type Kind uint8

// The kinds of nodes.
const (
	Null Kind = iota
	Bool
	Int
	Float
	String
	List
	Map
)

func (k Kind) String() string {
	return [...]string{"nothing", "a boolean", "a whole number", "a number", "a string", "a list", "a map"}[k]
}

// Node is one value of a file.
type Node struct {
	Pos
	Kind   Kind
	Text   string  // of a scalar as written, of a string its content
	Value  any     // of a Bool, Int or Float: bool, int64 (json.Number beyond it), float64
	Loose  bool    // from a flag or variable: text that becomes what the field wants
	Items  []*Node // of a List
	Fields []Field // of a Map, in the order of the file
}

// Field is one key of a map with its value.
type Field struct {
	Key   string
	Pos   Pos
	Value *Node
}

func (n *Node) field(key string) *Field {
	if i := slices.IndexFunc(n.Fields, func(f Field) bool { return f.Key == key }); i >= 0 {
		return &n.Fields[i]
	}
	return nil
}

// Merge adds the fields of other, another file of the same rank, to n. A key
// that both define is reported with both places.
func (n *Node) Merge(other *Node, r *Report) { n.merge(other, "", r) }

func (n *Node) merge(other *Node, path string, r *Report) {
	for _, f := range other.Fields {
		have := n.field(f.Key)
		switch {
		case have == nil:
			n.Fields = append(n.Fields, f)
		case have.Value.Kind == Map && f.Value.Kind == Map:
			have.Value.merge(f.Value, Join(path, f.Key), r)
		default:
			r.Add(f.Pos, "keep one of the two", "%s is already defined at %s", Join(path, f.Key), have.Pos)
		}
	}
}

// Report collects what is wrong.
type Report struct {
	Diagnostics []protocol.Diagnostic
}

// Code is the code of every diagnostic a [Report] collects.
const Code = string(protocol.ConfigInvalid)

// Add reports an error at pos; hint is the next step and may be "".
func (r *Report) Add(pos Pos, hint, format string, args ...any) {
	r.add(protocol.LevelError, pos, hint, fmt.Sprintf(format, args...))
}

// Warn reports something that is used all the same.
func (r *Report) Warn(pos Pos, hint, format string, args ...any) {
	r.add(protocol.LevelWarn, pos, hint, fmt.Sprintf(format, args...))
}

func (r *Report) add(level protocol.Level, pos Pos, hint, message string) {
	if pos.Source != "" {
		message = pos.Source + ": " + message
	}
	r.Diagnostics = append(r.Diagnostics, protocol.Diagnostic{Level: level, Code: Code,
		Path: pos.File, Line: pos.Line, Column: pos.Column, Message: message, Hint: hint})
}

// Failed reports whether an error was added.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Diagnostics, func(d protocol.Diagnostic) bool { return d.Level == protocol.LevelError })
}

// Sort orders what was found by file and place, findings without a place last.
func (r *Report) Sort(files []string) {
	rank := func(d protocol.Diagnostic) int {
		if i := slices.Index(files, d.Path); i >= 0 {
			return i
		}
		return len(files)
	}
	slices.SortStableFunc(r.Diagnostics, func(a, b protocol.Diagnostic) int {
		for _, c := range []int{rank(a) - rank(b), a.Line - b.Line, a.Column - b.Column} {
			if c != 0 {
				return c
			}
		}
		return 0
	})
}

// At returns the value of a key of a Map, nil when there is none. It may be
// called on nil.
func (n *Node) At(key string) *Node {
	if n == nil {
		return nil
	}
	if f := n.field(key); f != nil {
		return f.Value
	}
	return nil
}

// Entries goes over the values of a Map by key, or of a List by what each
// element states as nameKey. It may be called on nil.
func (n *Node) Entries(nameKey string) iter.Seq2[string, *Node] {
	return func(yield func(string, *Node) bool) {
		if n == nil {
			return
		}
		for _, f := range n.Fields {
			if !yield(f.Key, f.Value) {
				return
			}
		}
		for _, item := range n.Items {
			if name := item.At(nameKey); name != nil && !yield(name.Text, item) {
				return
			}
		}
	}
}
