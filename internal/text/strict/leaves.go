package strict

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// Leaf is one setting of a struct: a scalar or a list of scalars.
type Leaf struct {
	Path  string
	Type  reflect.Type
	Value any // as [Plain] returns it; nil if not stated
}

// Mask reports whether the value of a key must be hidden.
type Mask func(key, value string) bool

// secretKey is a key whose value is always secret, unless it is a reference.
const secretKey = "secret"

// masked replaces a secret.
const masked = "***"

// Leaves returns every setting of the struct v points to, in the order of its fields, map keys sorted. Empty maps
// and lists of structs have none.
func Leaves(v any, mask Mask) []Leaf {
	w := walker{mask: mask}
	w.leaves("", "", reflect.ValueOf(v).Elem(), fieldTags{})
	return w.found
}

// Plain returns the struct v points to as files write it: maps, lists and scalars, durations as text (as numbers
// under a key in _ms), secrets masked.
func Plain(v any, mask Mask) any {
	w := walker{mask: mask}
	return w.plain("", reflect.ValueOf(v).Elem(), fieldTags{})
}

type walker struct {
	mask  Mask
	found []Leaf
}

func (w *walker) leaves(path, key string, v reflect.Value, tags fieldTags) {
	elem := indirect(v.Type())
	switch {
	case elem.Kind() == reflect.Struct:
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return
			}
			v = v.Elem()
		}
		for _, f := range fieldsOf(elem) {
			at, value := Join(path, f.name), v.Field(f.index)
			if kind := indirect(f.typ).Kind(); f.omitted(value) && kind != reflect.Struct && kind != reflect.Map {
				w.found = append(w.found, Leaf{Path: at, Type: indirect(f.typ)})
				continue
			}
			w.leaves(at, f.name, value, f.tags)
		}
	case elem.Kind() == reflect.Map:
		for _, k := range sortedKeys(v) {
			w.leaves(Join(path, k.String()), k.String(), v.MapIndex(k), tags.element())
		}
	case elem.Kind() == reflect.Slice && elem.Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			w.leaves(Index(path, i), key, v.Index(i), tags.element())
		}
	default:
		w.found = append(w.found, Leaf{path, elem, w.plain(key, v, tags)})
	}
}

func sortedKeys(v reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int {
		return strings.Compare(a.String(), b.String())
	})
}

func (w *walker) plain(key string, v reflect.Value, tags fieldTags) any {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return w.plain(key, v.Elem(), tags)
	case reflect.Struct:
		return w.object(v)
	case reflect.Map:
		out := make(map[string]any, v.Len())
		for k, elem := range v.Seq2() {
			out[k.String()] = w.plain(k.String(), elem, tags.element())
		}
		return out
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range v.Len() {
			out[i] = w.plain(key, v.Index(i), tags.element())
		}
		return out
	case reflect.String:
		if w.hides(key, v.String(), tags) {
			return masked
		}
		return v.String()
	}
	if isDuration(v.Type()) {
		return durationText(key, time.Duration(v.Int()))
	}
	return v.Interface()
}

// hides reports whether a string is secret. Paths and names of variables are not.
func (w *walker) hides(key, s string, tags fieldTags) bool {
	switch {
	case s == "" || tags.path || tags.secret == "false":
		return false
	case tags.secret == "true":
		key = secretKey
	}
	return w.mask(key, s)
}

func durationText(key string, d time.Duration) any {
	if isMilliseconds(key) {
		return d.Milliseconds()
	}
	return d.String()
}

// object omits empty fields as their json tags say.
func (w *walker) object(v reflect.Value) map[string]any {
	out := map[string]any{}
	for _, f := range fieldsOf(v.Type()) {
		if elem := v.Field(f.index); !f.omitted(elem) {
			out[f.name] = w.plain(f.name, elem, f.tags)
		}
	}
	return out
}
