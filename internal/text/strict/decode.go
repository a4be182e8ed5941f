package strict

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
)

// Decoder lays trees over structs, the tree of the weakest file first: scalars
// and lists replace the earlier value, maps are joined key by key.
type Decoder struct {
	Report    *Report
	Lookup    func(name string) (string, bool) // of ${NAME} in strings
	Dir       string                           // the base of relative paths from flags and variables
	CamelCase string                           // below this top-level key, keys may also be camelCase
	Keep      map[string]int                   // by path of a list: how many elements no tree may replace
	Positions Positions                        // filled in: where each value was stated
	// the base of relative paths of a file; default: its directory
	BaseOf func(file string) string
	// whether a ${name} that is not set is left for later; default: never
	Late func(path string, pos Pos, name string) bool

	// Exact takes values as the format of the file states them: no variables, no
	// text for another type, no other unit, no null. Diagnostics speak of tables
	// and arrays. Default: a configuration's maps and lists.
	Exact bool
	// Unknown reports a key that no field has. Default: an error with a hint.
	Unknown func(f Field, known []string, message string)
}

// Decode lays n, which diagnostics call path, over the struct that v points to.
func (d *Decoder) Decode(path string, n *Node, v any) {
	if d.Positions == nil {
		d.Positions = Positions{}
	}
	d.value(path, n, reflect.ValueOf(v).Elem(), fieldTags{})
}

// defaulter is implemented by element types whose zero value is not what an
// element that states nothing means.
type defaulter interface{ SetDefaults() }

// enumerated is implemented by string types with a closed set of values.
type enumerated interface{ Values() []string }

func (d *Decoder) value(path string, n *Node, v reflect.Value, tags fieldTags) {
	if n.Kind == Null && v.Kind() != reflect.Interface && !d.Exact {
		return // null counts as not stated
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
	case d.Exact:
		d.exact(path, n, v, tags)
	case isDuration(v.Type()):
		d.duration(n, v, path)
	case text && (n.Kind == String || (n.Kind == Int || n.Kind == Float) && v.Kind() != reflect.Slice):
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
		x := d.free(path, n)
		v.Set(reflect.ValueOf(&x).Elem())
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

func (r *Report) wrong(path string, n *Node, want, hint string) {
	r.Add(n.Pos, hint, "%s: want %s, not %s", path, want, describe(n))
}

// describe names a value without the content of a string, which may be secret.
func describe(n *Node) string {
	switch n.Kind {
	case Bool, Int, Float:
		return n.Text
	}
	return n.Kind.String()
}

func (d *Decoder) object(path string, n *Node, v reflect.Value) {
	if n.Kind != Map {
		d.Report.wrong(path, n, "a map", "")
		return
	}
	fields := fieldsOf(v.Type())
	stated := map[int]Pos{}
	for _, f := range n.Fields {
		i := d.fieldIndex(path, f.Key, fields)
		if i < 0 {
			d.unknown(path, f, v.Type())
			continue
		}
		if have, ok := stated[i]; ok {
			d.Report.Add(f.Pos, "keep one of the two", "%s is already stated at %s", Join(path, fields[i].name), have)
			continue
		}
		stated[i] = f.Pos
		d.field(path, f, v.Field(fields[i].index), fields[i])
	}
}

// field decodes one struct field. A whole number is a duration only where the
// key says that it is in milliseconds, and text only where it does not.
func (d *Decoder) field(path string, f Field, v reflect.Value, known field) {
	at, n, ms := Join(path, known.name), f.Value, isMilliseconds(f.Key)
	if isDuration(indirect(known.typ)) {
		switch {
		case ms && n.Kind == String && !n.Loose:
			d.Report.Add(n.Pos, "write "+strings.TrimSuffix(Snake(f.Key), "_ms")+" for a duration such as \"500ms\"",
				"%s: want a whole number of milliseconds, not a string", Join(path, f.Key))
			return
		case !ms && n.Kind == Int && n.Value != int64(0):
			d.Report.Add(n.Pos, fmt.Sprintf("write %q, or %s_ms: %s", n.Text+"s", f.Key, n.Text), "%s: %s has no unit",
				at, n.Text)
			return
		}
	}
	d.value(at, n, v, known.tags)
}

func (d *Decoder) unknown(path string, f Field, t reflect.Type) {
	where, known := "", Keys(t)
	if d.Exact {
		where = " " + in(path)
	} else if path != "" {
		where = " in " + path
	}
	message := "unknown key " + quote(f.Key) + where
	if d.Unknown != nil {
		d.Unknown(f, known, message)
		return
	}
	d.Report.Add(f.Pos, choose(f.Key, known), "%s", message)
}

// fieldIndex finds the field that a key means, -1 when there is none.
func (d *Decoder) fieldIndex(path, key string, fields []field) int {
	if d.CamelCase != "" && strings.HasPrefix(path, d.CamelCase+"[") && !strings.Contains(key, "_") {
		key = Snake(key)
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

func isMilliseconds(key string) bool { return strings.HasSuffix(Snake(key), "_ms") }

// Snake turns camelCase into snake_case.
func Snake(key string) string {
	var b strings.Builder
	for i, c := range key {
		if 'A' <= c && c <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

func isDuration(t reflect.Type) bool { return t.Kind() == reflect.Int64 && t.Name() == "Duration" }

func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
