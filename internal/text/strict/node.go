// Package strict reads YAML, TOML and JSON into one tree of positioned nodes and decodes the tree onto structs. It
// reports every unknown key, wrong type and value out of range at once, with its position and a hint.
//
// The json tag of a struct field names its key. Further tags:
//
//	alias:"kind"    another name of the key; only [Decoder.Exact] reads it
//	jsonschema:"enum=a,enum=b,minimum=1,maximum=9"   checked as the schema states it
//	path:"true"     a path, relative to the file that states it
//	secret:"true"   masked by [Leaves] and [Plain]
//	list:"name"     a map that may be written as a list whose elements have a name
package strict

import (
	"slices"
	"strconv"
)

// Pos is where a value is stated: a position in a file, or a Source.
type Pos struct {
	File         string
	Line, Column int    // 1-based, the column in bytes; 0 if unknown
	Source       string // where a value from no file comes from: "flag --listen", "env EXTHOST_LOG_LEVEL"
	Wrong        bool   // [Decoder.Exact] has reported the value as invalid
}

// String returns file:line, or the source.
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
	Kind Kind
	Text string // a scalar as written, a string without its quotes
	// Bool: bool. Int: int64, or json.Number if bigger. Float: float64. String: time.Time for a TOML date, else
	// nil.
	Value  any
	Loose  bool    // from a flag or variable: the field's type decides
	Items  []*Node // elements of a List
	Fields []Field // keys of a Map in the order of the file; only JSON may repeat a key
}

// Field is a key of a map with its value.
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

// TextsOf turns numbers and booleans in the list or map under key into strings.
func (n *Node) TextsOf(key string) {
	of := n.At(key)
	if of == nil {
		return
	}
	values := slices.Clone(of.Items)
	for _, f := range of.Fields {
		values = append(values, f.Value)
	}
	for _, v := range values {
		if v.Kind == Bool || v.Kind == Int || v.Kind == Float {
			v.Kind, v.Value = String, nil
		}
	}
}

// At returns the value of a key of a Map, or nil. n may be nil.
func (n *Node) At(key string) *Node {
	if n == nil {
		return nil
	}
	if f := n.field(key); f != nil {
		return f.Value
	}
	return nil
}

// Merge adds the fields of other, another file of the same rank, to n. A key that both define is reported with
// both positions.
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
