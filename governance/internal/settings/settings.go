// Package settings decodes the config of a policy. Its errors name the wrong key.
package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/strict"
)

// Decode decodes config into the struct that c points to, which holds the defaults. Keys
// are those of the json tags, also in camelCase. The error for an unknown key names the
// nearest one.
func Decode(config map[string]any, c any) error {
	known, err := canonical("config", config, reflect.TypeOf(c).Elem())
	if err != nil {
		return err
	}
	text, err := json.Marshal(known)
	if err != nil {
		return Wrong("config", "%w", err)
	}
	err = json.Unmarshal(text, c)
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return Wrong("config."+bad.Field, "a %s where %s belongs", bad.Value, describe(bad.Type))
	}
	if err != nil {
		return Wrong("config", "%w", err)
	}
	return nil
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// canonical returns value with its keys as in the tags of t, and errors for unknown and repeated
// keys and for values that a type's UnmarshalJSON rejects.
func canonical(path string, value any, t reflect.Type) (any, error) {
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return value, decodable(path, value, t)
	}
	switch v := value.(type) {
	case map[string]any:
		if t.Kind() == reflect.Struct {
			return canonicalTable(path, v, t)
		}
	case []any:
		if t.Kind() != reflect.Slice {
			break
		}
		list, errs := make([]any, len(v)), make([]error, len(v))
		for i := range v {
			list[i], errs[i] = canonical(fmt.Sprintf("%s[%d]", path, i), v[i], t.Elem())
		}
		return list, errors.Join(errs...)
	}
	return value, nil
}

// decodable reports an error when t, a json.Unmarshaler, rejects value.
func decodable(path string, value any, t reflect.Type) error {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	if err != nil {
		return Wrong(path, "%w", err)
	}
	return nil
}

func canonicalTable(path string, table map[string]any, t reflect.Type) (any, error) {
	fields := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) { // those of embedded structs too
		if !f.Anonymous {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields[name] = f.Type
		}
	}
	out := make(map[string]any, len(table))
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(table)) {
		name, place := strict.Snake(key), path+"."+key
		ft, known := fields[name]
		if _, twice := out[name]; twice {
			errs = append(errs, Wrong(place, "stated twice"))
			continue
		}
		if !known {
			errs = append(errs, unknownKey(place, key, fields))
			continue
		}
		var err error
		if out[name], err = canonical(place, table[key], ft); err != nil {
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}

func unknownKey(place, key string, fields map[string]reflect.Type) error {
	keys := slices.Sorted(maps.Keys(fields))
	if near := text.Nearest(key, keys); near != "" {
		return Wrong(place, "unknown key, did you mean %s?", near)
	}
	return Wrong(place, "unknown key; there are %s", strings.Join(keys, ", "))
}

func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a table"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	}
	return "a whole number"
}

// Duration is a time.Duration in the notation of files: "90s", "1h".
type Duration time.Duration

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf(`%s is not a duration such as "90s" or "1h"`, b)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil || parsed < 0 {
		return fmt.Errorf(`%q is not a duration such as "90s" or "1h"`, text)
	}
	*d = Duration(parsed)
	return nil
}

// OneOf returns an error when *word, the value of a key of config, is not allowed. An empty
// word becomes the first allowed one.
func OneOf(key string, word *string, allowed ...string) error {
	if *word == "" {
		*word = allowed[0]
	}
	if slices.Contains(allowed, *word) {
		return nil
	}
	return Wrong("config."+key, "%q is none of %s", *word, strings.Join(allowed, ", "))
}

// fault is an error about the value at a key of a spec; "" is the spec itself.
type fault struct {
	key string
	err error
}

// Wrong returns an error about the value at a key of a spec, such as config.when; "" is the spec itself.
func Wrong(key, format string, args ...any) error {
	return &fault{key, fmt.Errorf(format, args...)}
}

func (f *fault) Error() string {
	if f.key == "" {
		return f.err.Error()
	}
	return f.key + ": " + f.err.Error()
}

func (f *fault) Unwrap() error { return f.err }

// Problems splits joined errors into problems. The key of an error of [Wrong] becomes
// Problem.Field.
func Problems(err error) []governance.Problem {
	if err == nil {
		return nil
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		var found []governance.Problem
		for _, err := range list.Unwrap() {
			found = append(found, Problems(err)...)
		}
		return found
	}
	if f, ok := errors.AsType[*fault](err); ok {
		return []governance.Problem{{Field: f.key, Message: f.err.Error()}}
	}
	return []governance.Problem{{Message: err.Error()}}
}
