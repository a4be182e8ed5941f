package strict

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
)

// Decoder lays trees over structs, the tree of the weakest file first: scalars
// and lists replace what is there, maps are joined key by key.
type Decoder struct {
	Report    *Report
	Lookup    func(name string) (string, bool) // of ${NAME} in strings
	Dir       string                           // what relative paths from flags and variables are relative to
	CamelCase string                           // below this top-level key, keys may also be camelCase
	Keep      map[string]int                   // by path of a list: how many elements no tree may replace
	Positions Positions                        // filled in: where each value was stated
	Late      func(path string) bool           // a ${NAME} at path that is not set is left for later; nil: never
}

// Decode lays n over the struct that v points to.
func (d *Decoder) Decode(n *Node, v any) { d.value("", n, reflect.ValueOf(v).Elem(), fieldTags{}) }

// defaulter is implemented by element types whose zero value is not what an
// element that states nothing means.
type defaulter interface{ SetDefaults() }

// enumerated is implemented by string types with a closed set of values.
type enumerated interface{ Values() []string }

func (d *Decoder) value(path string, n *Node, v reflect.Value, tags fieldTags) {
	if n.Kind == Null && v.Kind() != reflect.Interface {
		return // stated, but nothing: as if it were not
	}
	if v.Kind() == reflect.Pointer {
		elem := newElem(v.Type().Elem())
		if !v.IsNil() {
			elem.Set(v.Elem())
		}
		d.value(path, n, elem, tags)
		v.Set(elem.Addr())
		return
	}
	d.Positions[path] = n.Pos
	_, text := v.Addr().Interface().(encoding.TextUnmarshaler)
	switch {
	case isDuration(v.Type()):
		d.duration(n, v, path)
	case text && (n.Kind == String || n.Kind == Int && v.Kind() != reflect.Slice):
		d.text(path, n, v, tags)
	default:
		d.plain(path, n, v, tags)
	}
}

func (d *Decoder) plain(path string, n *Node, v reflect.Value, tags fieldTags) {
	switch v.Kind() {
	case reflect.Struct:
		d.object(path, n, v)
	case reflect.Map:
		d.table(path, n, v, tags)
	case reflect.Slice:
		d.list(path, n, v, tags)
	case reflect.Interface:
		setAny(v, d.free(path, n))
	case reflect.String:
		d.str(path, n, v, tags)
	case reflect.Bool:
		d.boolean(n, v, path)
	case reflect.Int, reflect.Int64:
		d.integer(path, n, v, tags)
	default:
		panic("strict: no decoding for " + v.Type().String())
	}
}

// newElem returns an addressable element that states nothing.
func newElem(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if def, ok := v.Interface().(defaulter); ok {
		def.SetDefaults()
	}
	return v.Elem()
}

func (d *Decoder) wrong(path string, n *Node, want, hint string) {
	d.Report.Add(n.Pos, hint, "%s: want %s, not %s", path, want, describe(n))
}

// describe names what was written, without repeating a text that may be secret.
func describe(n *Node) string {
	switch n.Kind {
	case Bool, Int, Float:
		return n.Text
	}
	return n.Kind.String()
}

// object decodes a map onto a struct.
func (d *Decoder) object(path string, n *Node, v reflect.Value) {
	if n.Kind != Map {
		d.wrong(path, n, "a map", "")
		return
	}
	fields := fieldsOf(v.Type())
	stated := map[int]Pos{}
	for _, f := range n.Fields {
		i := d.fieldIndex(path, f.Key, fields)
		if i < 0 {
			d.unknown(path, f, fields)
			continue
		}
		if have, ok := stated[i]; ok {
			d.Report.Add(f.Pos, "keep one of the two", "%s is already stated at %s", Join(path, fields[i].name), have)
			continue
		}
		stated[i] = f.Pos
		value := *f.Value
		if isMilliseconds(f.Key) && isDuration(indirect(fields[i].typ)) && value.Kind == String && !value.Loose {
			d.Report.Add(value.Pos, "write "+strings.TrimSuffix(snake(f.Key), "_ms")+" for a duration such as \"500ms\"",
				"%s: want a whole number of milliseconds, not a string", Join(path, f.Key))
			continue
		}
		d.field(Join(path, fields[i].name), f.Key, &value, v.Field(fields[i].index), fields[i].tags)
	}
}

// field decodes one struct field. A whole number is a duration only where the
// key says that it is in milliseconds.
func (d *Decoder) field(path, key string, n *Node, v reflect.Value, tags fieldTags) {
	if n.Kind == Int && isDuration(indirect(v.Type())) && !isMilliseconds(key) && n.Value != int64(0) {
		d.Report.Add(n.Pos, fmt.Sprintf("write %q, or %s_ms: %s", n.Text+"s", key, n.Text), "%s: %s has no unit", path, n.Text)
		return
	}
	d.value(path, n, v, tags)
}

func (d *Decoder) unknown(path string, f Field, fields []field) {
	names := make([]string, len(fields))
	for i, known := range fields {
		names[i] = known.name
	}
	in := ""
	if path != "" {
		in = " in " + path
	}
	d.Report.Add(f.Pos, choose(f.Key, names), "unknown key %s%s", quote(f.Key), in)
}

// fieldIndex finds the field a key means, -1 when there is none.
func (d *Decoder) fieldIndex(path, key string, fields []field) int {
	if d.CamelCase != "" && strings.HasPrefix(path, d.CamelCase+"[") && !strings.Contains(key, "_") {
		key = snake(key)
	}
	for i, f := range fields {
		if f.name == key {
			return i
		}
	}
	for i, f := range fields { // timeout for timeout_ms and the other way round
		if isDuration(indirect(f.typ)) && strings.TrimSuffix(f.name, "_ms") == strings.TrimSuffix(key, "_ms") {
			return i
		}
	}
	return -1
}

func isMilliseconds(key string) bool { return strings.HasSuffix(snake(key), "_ms") }

func isDuration(t reflect.Type) bool { return t.Kind() == reflect.Int64 && t.Name() == "Duration" }

func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
