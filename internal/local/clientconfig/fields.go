package clientconfig

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// fields are the fields of a server that have not been read yet.
type fields struct {
	set   map[string]any
	wrong string // first field with a wrong type; "" for none
}

func (f *fields) mistake(format string, args ...any) {
	if f.wrong == "" {
		f.wrong = fmt.Sprintf(format, args...)
	}
}

// take removes and returns a field.
func (f *fields) take(key string) any {
	v := f.set[key]
	delete(f.set, key)
	return v
}

func (f *fields) text(keys ...string) (text string) {
	for _, key := range keys {
		v := f.take(key)
		s, ok := v.(string)
		if v != nil && !ok {
			f.mistake("%s is no text", key)
		}
		if text == "" {
			text = s
		}
	}
	return text
}

func (f *fields) list(key string) (list []string) {
	v := f.take(key)
	values, ok := v.([]any)
	if v != nil && !ok {
		f.mistake("%s is no list", key)
	}
	for i, v := range values {
		s, ok := scalar(v)
		if !ok {
			f.mistake("%s[%d] is no text", key, i)
		}
		list = append(list, s)
	}
	return list
}

func (f *fields) texts(key string) map[string]string {
	v := f.take(key)
	if v != nil && table(v) == nil {
		f.mistake("%s is no table", key)
	}
	out := make(map[string]string)
	for name, v := range inOrder(table(v)) {
		s, ok := scalar(v)
		if v != nil && !ok {
			f.mistake("%s.%s is no text", key, name)
		}
		if v != nil {
			out[name] = s
		}
	}
	return out
}

// scalar returns the text of a string, number or boolean, as it would be passed to a process.
func scalar(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case bool, int, int64, uint64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// duration reads a field with a number of units as a duration.
func (f *fields) duration(key string, unit time.Duration) time.Duration {
	v := f.take(key)
	if v == nil {
		return 0
	}
	text, _ := scalar(v)
	n, err := strconv.ParseFloat(text, 64)
	if n *= float64(unit); err != nil || math.IsNaN(n) || n > math.MaxInt64/2 {
		f.mistake("%s is no time", key)
		return 0
	}
	return time.Duration(max(n, 0))
}

func (f *fields) flag(key string) (is, stated bool) {
	v := f.take(key)
	is, stated = v.(bool)
	if v != nil && !stated {
		f.mistake("%s is neither true nor false", key)
	}
	return is, stated
}
