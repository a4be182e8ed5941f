package strict

import (
	"encoding"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (d *Decoder) boolean(n *Node, v reflect.Value, path string) {
	b, ok := n.Value.(bool)
	if n.Loose {
		var err error
		b, err = strconv.ParseBool(n.Text)
		ok = err == nil
	}
	if !ok {
		hint := "write true or false"
		switch strings.ToLower(n.Text) {
		case "yes", "on", "y":
			hint = "write true"
		case "no", "off", "n":
			hint = "write false"
		}
		what := n.describe()
		if n.Kind == String && len(n.Text) <= len("disabled") {
			what = quote(n.Text)
		}
		d.Report.Add(n.Pos, hint, "%s: want true or false, not %s", path, what)
		return
	}
	v.SetBool(b)
}

// whole returns the integer of a node.
func (n *Node) whole() (i int64, ok bool) {
	if n.Loose {
		i, err := strconv.ParseInt(n.Text, 10, 64)
		return i, err == nil
	}
	i, ok = n.Value.(int64)
	return i, ok
}

func (d *Decoder) integer(path string, n *Node, v reflect.Value, tags fieldTags) {
	i, ok := n.whole()
	if !ok || v.OverflowInt(i) {
		d.Report.wrong(path, n, "a whole number", "")
		return
	}
	v.SetInt(i)
	tags.bounds(d.Report, path, n, i)
}

// bounds reports a number out of range.
func (t fieldTags) bounds(r *Report, path string, n *Node, i int64) {
	switch {
	case t.min != nil && i < *t.min:
		r.Add(n.Pos, "", "%s: %s is less than %d", path, n.Text, *t.min)
	case t.max != nil && i > *t.max:
		r.Add(n.Pos, "", "%s: %s is more than %d", path, n.Text, *t.max)
	}
}

// duration decodes text such as "500ms", or whole milliseconds.
func (d *Decoder) duration(n *Node, v reflect.Value, path string) {
	ms, ok := n.whole()
	duration := time.Duration(ms) * time.Millisecond
	switch {
	case ok && (ms > math.MaxInt64/int64(time.Millisecond) || ms < math.MinInt64/int64(time.Millisecond)):
		d.Report.Add(n.Pos, "", "%s: %s milliseconds are more than a duration can hold", path, n.Text)
		return
	case !ok && n.Kind == String:
		parsed, err := time.ParseDuration(d.expand(path, n, n.Text))
		if err != nil {
			d.Report.Add(n.Pos, `write a number and a unit, such as "500ms", "10s" or "2m"`, "%s: %s is not a duration",
				path, quote(n.Text))
			return
		}
		duration = parsed
	case !ok:
		d.Report.wrong(path, n, `a duration such as "500ms"`, "")
		return
	}
	if duration < 0 {
		d.Report.Add(n.Pos, "write 0 or more", "%s: %s is negative", path, n.Text)
		return
	}
	v.SetInt(int64(duration))
}

func (d *Decoder) str(path string, n *Node, v reflect.Value, tags fieldTags) {
	if n.Kind != String {
		hint := ""
		if n.Kind != List && n.Kind != Map && tags.secret != "true" {
			hint = "write " + quote(n.Text)
		}
		d.Report.wrong(path, n, "a string", hint)
		return
	}
	s := d.expand(path, n, n.Text)
	enum := tags.enum
	if e, ok := v.Interface().(enumerated); ok {
		enum = e.Values()
	}
	if len(enum) > 0 && !slices.Contains(enum, s) {
		d.Report.Add(n.Pos, Choose(s, enum), "%s: unknown value %s", path, quote(s))
		return
	}
	if tags.path {
		s = d.resolve(n.Pos, s)
	}
	v.SetString(s)
}

// text decodes a scalar onto a type with UnmarshalText. A command line is split before its variables are expanded,
// so that no variable becomes two words.
func (d *Decoder) text(path string, n *Node, v reflect.Value, tags fieldTags) {
	s := n.Text
	if v.Kind() != reflect.Slice {
		s = d.expand(path, n, s)
	}
	if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
		d.Report.Add(n.Pos, "", "%s: %v", path, err)
		return
	}
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			v.Index(i).SetString(d.expand(path, n, v.Index(i).String()))
		}
	case reflect.Int64:
		tags.bounds(d.Report, path, n, v.Int())
	}
}
