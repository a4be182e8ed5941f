package strict

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
)

// Decoder lays trees over structs, the weakest file's first: scalars and lists replace the earlier value, maps are
// merged by key.
type Decoder struct {
	Report    *Report
	Lookup    func(name string) (string, bool) // resolves ${NAME} in strings
	Dir       string                           // base of relative paths in flags and variables
	CamelCase string                           // keys below this top-level key may also be camelCase
	Keep      map[string]int                   // by path of a list: how many leading elements trees cannot replace
	Positions Positions                        // filled in: where each value was stated
	// BaseOf returns the base of a file's relative paths; default: its directory.
	BaseOf func(file string) string
	// Late reports whether an unset ${name} is resolved later; default: never.
	Late func(path string, pos Pos, name string) bool

	// Exact accepts values only in the file format's own notation: no variables, no text for other types, no other
	// units, no null. Diagnostics then speak of tables and arrays. Default: lenient, as for a configuration.
	Exact bool
	// Unknown reports an unknown key. Default: an error with a hint.
	Unknown func(f Field, known []string, message string)
}

// Decode lays n over the struct that v points to. path prefixes the keys in diagnostics.
func (d *Decoder) Decode(path string, n *Node, v any) {
	if d.Positions == nil {
		d.Positions = Positions{}
	}
	d.value(path, n, reflect.ValueOf(v).Elem(), fieldTags{})
}

// defaulter is implemented by element types whose defaults differ from the zero value.
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

// newElem returns an addressable element with its defaults.
func newElem(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if def, ok := v.Interface().(defaulter); ok {
		def.SetDefaults()
	}
	return v.Elem()
}

func (r *Report) wrong(path string, n *Node, want, hint string) {
	r.Add(n.Pos, hint, "%s: want %s, not %s", path, want, n.describe())
}

// describe describes a value without the content of a string, which may be secret.
func (n *Node) describe() string {
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

// field decodes one struct field. A duration can be a whole number only under a key in _ms, and text only under another
// key.
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
	before := len(d.Report.Diagnostics)
	if d.Unknown != nil {
		d.Unknown(f, known, message)
	} else {
		d.Report.Add(f.Pos, Choose(f.Key, known), "%s", message)
	}
	if before < maxMisspelt && Failed(d.Report.Diagnostics[before:]) {
		d.misspelt(path, f, known)
	}
}

// maxMisspelt bounds the work for a file without known keys.
const maxMisspelt = 100

// misspelt records the key that f probably means as stated and wrong. Nothing else is then reported about that key, in
// particular not that it is missing.
func (d *Decoder) misspelt(path string, f Field, known []string) {
	meant := nearest(f.Key, known)
	if meant == "" {
		return
	}
	if at := Join(path, meant); d.Positions[at] == (Pos{}) {
		pos := f.Pos
		pos.Wrong = true
		d.Positions[at] = pos
	}
}

// fieldIndex returns the index of the field for a key, or -1.
func (d *Decoder) fieldIndex(path, key string, fields []field) int {
	if d.CamelCase != "" && strings.HasPrefix(path, d.CamelCase+"[") && !strings.Contains(key, "_") {
		key = Snake(key)
	}
	for i, f := range fields {
		if f.name == key {
			return i
		}
	}
	for i, f := range fields { // timeout for timeout_ms and vice versa
		if isDuration(indirect(f.typ)) && strings.TrimSuffix(f.name, "_ms") == strings.TrimSuffix(key, "_ms") {
			return i
		}
	}
	return -1
}

func isMilliseconds(key string) bool { return strings.HasSuffix(Snake(key), "_ms") }

// Snake converts camelCase to snake_case.
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
