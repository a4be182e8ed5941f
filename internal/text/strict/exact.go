package strict

import (
	"fmt"
	"reflect"
	"slices"
)

// unmarshaler is implemented by types that files may write in several ways.
type unmarshaler interface{ UnmarshalTOML(v any) error }

// exact decodes a value in the notation of its format.
func (d *Decoder) exact(path string, n *Node, v reflect.Value, tags fieldTags) {
	if u, ok := v.Addr().Interface().(unmarshaler); ok {
		if err := u.UnmarshalTOML(d.free(path, n)); err != nil {
			d.inexact(path, n, "%v", err)
		}
		return
	}
	switch kind := v.Kind(); {
	case kind == reflect.Struct && n.Kind == Map:
		d.exactObject(path, n, v)
	case kind == reflect.Map && n.Kind == Map:
		d.table(path, n, v, tags)
	case kind == reflect.Slice && n.Kind == List:
		d.list(path, n, v, tags)
	case !n.setScalar(v):
		d.inexact(path, n, "want %s, got %s", wanted(v.Type()), n.got())
	}
}

// setScalar sets a string, a boolean or a number of 32 bits; ok is false for a node of another type.
func (n *Node) setScalar(v reflect.Value) (ok bool) {
	i, whole := n.Value.(int64)
	switch kind := v.Kind(); {
	case kind == reflect.String && n.Kind == String && n.Value == nil:
		v.SetString(n.Text)
	case kind == reflect.Bool && n.Kind == Bool:
		v.SetBool(n.Value.(bool))
	case kind == reflect.Int && whole && int64(int32(i)) == i:
		v.SetInt(i)
	default:
		return false
	}
	return true
}

// inexact reports a value and marks its position as wrong.
func (d *Decoder) inexact(path string, n *Node, format string, args ...any) {
	pos := n.Pos
	pos.Wrong = true
	d.Positions[path] = pos
	d.Report.Add(n.Pos, "", "%s: %s", path, fmt.Sprintf(format, args...))
}

// exactObject decodes a table onto a struct. The position of a value stated by an alias is recorded under both
// names.
func (d *Decoder) exactObject(path string, n *Node, v reflect.Value) {
	fields := fieldsOf(v.Type())
	for _, f := range n.Fields {
		known := slices.IndexFunc(fields,
			func(k field) bool { return k.name == f.Key || k.tags.alias != "" && k.tags.alias == f.Key })
		if known < 0 {
			d.unknown(path, f, v.Type())
			continue
		}
		at, name := d.at(path, f.Key), fields[known].name
		if f.Key != name && n.field(name) != nil {
			d.Report.Add(f.Pos, "keep one of them", "%q and %q mean the same %s", f.Key, name, in(path))
			continue
		}
		d.value(at, f.Value, v.Field(fields[known].index), fields[known].tags)
		d.Positions[d.at(path, name)] = d.Positions[at]
	}
}

// at appends a key to a path, unquoted.
func (d *Decoder) at(path, key string) string {
	switch {
	case !d.Exact:
		return Join(path, key)
	case path == "":
		return key
	}
	return path + "." + key
}

// in names a table in diagnostics.
func in(path string) string {
	if path == "" {
		return "at the top level"
	}
	return "in [" + path + "]"
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "an array of tables"
		}
		return "an array of strings"
	}
	return "a table"
}

func (n *Node) got() string {
	switch n.Kind {
	case Null:
		return "null"
	case Int, Float:
		return fmt.Sprintf("the number %v", n.Value)
	case List:
		return "an array"
	case Map:
		return "a table"
	case String:
		if n.Value != nil {
			return "a date"
		}
	}
	return n.describe()
}
