package manifest

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/protocol"
)

// decoder fills structs from decoded values and reports every key that it
// cannot use, each at its place, instead of stopping at the first.
type decoder struct {
	*source
	lenient bool // unknown keys are notes, not errors
}

// unmarshaler reads a value that files may write in more than one way.
type unmarshaler interface{ UnmarshalTOML(v any) error }

// shape is the keys of a struct, and what else they may be called.
type shape struct {
	keys    []string // by field index
	aliases map[string]string
}

var shapes sync.Map // of reflect.Type to *shape

func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	s := &shape{aliases: map[string]string{}}
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("toml")
		s.keys = append(s.keys, key)
		if alias := f.Tag.Get("alias"); alias != "" {
			s.aliases[alias] = key
		}
	}
	shapes.Store(t, s)
	return s
}

// table decodes v into the struct dst, which messages call where.
func (d *decoder) table(dst reflect.Value, v map[string]any, n *node, where string) {
	known := shapeOf(dst.Type())
	for _, key := range slices.Sorted(maps.Keys(v)) {
		name := key
		if to, ok := known.aliases[key]; ok {
			if _, both := v[to]; both {
				d.errorAt(d.at(n.kid(key), n), "keep one of them", "%q and %q mean the same %s", key, to, in(where))
				continue
			}
			name = to
		}
		i := slices.Index(known.keys, name)
		if i < 0 {
			d.unknown(known.keys, key, n, where)
			continue
		}
		if name != key && n.kid(key) != nil {
			n.kids[name] = n.kids[key]
		}
		d.value(dst.Field(i), v[key], n.kid(key), n, join(where, key))
	}
}

func (d *decoder) unknown(known []string, key string, n *node, where string) {
	level, code := protocol.LevelError, d.code
	if d.lenient {
		level, code = protocol.LevelInfo, CodeSidecarNote
	}
	d.diagnose(level, code, d.at(n.kid(key), n), d.suggest(key, known), "unknown key %q %s", key, in(where))
}

func join(where, key string) string {
	if where == "" {
		return key
	}
	return where + "." + key
}

func in(where string) string {
	if where == "" {
		return "at the top level"
	}
	return "in [" + where + "]"
}

// maxSuggestions bounds the work for a file in which nothing is known.
const maxSuggestions = 100

// suggest guesses what was meant by an unknown key: one of the same table, or
// the same key of another one.
func (d *decoder) suggest(key string, names []string) string {
	if len(d.diags) > maxSuggestions {
		return ""
	}
	if near := nearest.Of(key, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if d.lenient {
		return ""
	}
	t := reflect.TypeFor[Manifest]()
	for i := range t.NumField() {
		section := t.Field(i)
		if section.Type.Kind() == reflect.Struct {
			if slices.Contains(shapeOf(section.Type).keys, key) {
				return fmt.Sprintf("it belongs in [%s]", section.Tag.Get("toml"))
			}
		}
	}
	return ""
}

// at returns the offset of the first node that is known.
func (d *decoder) at(nodes ...*node) int {
	for _, n := range nodes {
		if n != nil {
			return n.off
		}
	}
	return 0
}

// wrong reports a value of the wrong type or form, and remembers that so that
// validation does not report it again.
func (d *decoder) wrong(n, parent *node, where, format string, args ...any) {
	if n != nil {
		n.reported = true
	}
	d.errorAt(d.at(n, parent), "", "%s: %s", where, fmt.Sprintf(format, args...))
}

func (d *decoder) value(dst reflect.Value, v any, n, parent *node, where string) {
	if dst.Kind() == reflect.Pointer {
		dst.Set(reflect.New(dst.Type().Elem()))
		dst = dst.Elem()
	}
	if u, ok := dst.Addr().Interface().(unmarshaler); ok {
		if err := u.UnmarshalTOML(v); err != nil {
			d.wrong(n, parent, where, "%v", err)
		}
		return
	}
	switch dst.Kind() {
	case reflect.Struct:
		if t, ok := v.(map[string]any); ok {
			d.table(dst, t, n, where)
			return
		}
	case reflect.Slice:
		if list, ok := asList(v); ok {
			d.list(dst, list, n, parent, where)
			return
		}
	case reflect.Map:
		if t, ok := v.(map[string]any); ok {
			d.dict(dst, t, n, where)
			return
		}
	case reflect.Int:
		if i, ok := v.(int64); ok && i >= math.MinInt32 && i <= math.MaxInt32 {
			dst.SetInt(i)
			return
		}
	default: // string, bool
		if r := reflect.ValueOf(v); r.IsValid() && r.Type() == dst.Type() {
			dst.Set(r)
			return
		}
	}
	d.wrong(n, parent, where, "want %s, got %s", wanted(dst.Type()), got(v))
}

func (d *decoder) list(dst reflect.Value, list []any, n, parent *node, where string) {
	dst.Set(reflect.MakeSlice(dst.Type(), len(list), len(list)))
	for i, v := range list {
		d.value(dst.Index(i), v, n.item(i), d.first(n, parent), fmt.Sprintf("%s[%d]", where, i))
	}
}

func (d *decoder) first(n, parent *node) *node {
	if n != nil {
		return n
	}
	return parent
}

func (d *decoder) dict(dst reflect.Value, t map[string]any, n *node, where string) {
	if dst.Type().Elem().Kind() == reflect.Interface { // a free table
		dst.Set(reflect.ValueOf(t))
		return
	}
	dst.Set(reflect.MakeMapWithSize(dst.Type(), len(t)))
	for _, key := range slices.Sorted(maps.Keys(t)) {
		elem := reflect.New(dst.Type().Elem()).Elem()
		d.value(elem, t[key], n.kid(key), n, join(where, key))
		dst.SetMapIndex(reflect.ValueOf(key), elem)
	}
}

func asList(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case []map[string]any:
		list := make([]any, len(v))
		for i, t := range v {
			list[i] = t
		}
		return list, true
	}
	return nil, false
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

func got(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return fmt.Sprint(v)
	case int64:
		return fmt.Sprintf("the number %d", v)
	case float64:
		return fmt.Sprintf("the number %v", v)
	case time.Time:
		return "a date"
	case []any, []map[string]any:
		return "an array"
	}
	return "a table"
}
