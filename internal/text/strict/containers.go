package strict

import (
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
)

// table decodes a map onto a Go map. Struct elements are merged.
func (d *Decoder) table(path string, n *Node, v reflect.Value, tags fieldTags) {
	if n.Kind == List && tags.list != "" {
		n = d.named(path, n, tags.list)
	}
	if n.Kind != Map {
		d.Report.wrong(path, n, "a map", "")
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for _, f := range n.Fields {
		at := d.at(path, f.Key)
		key := reflect.ValueOf(f.Key).Convert(v.Type().Key())
		elem := newElem(v.Type().Elem())
		if have := v.MapIndex(key); have.IsValid() {
			elem.Set(have)
		}
		if elem.Kind() == reflect.Interface {
			x := d.overlay(at, elem.Interface(), f.Value)
			elem.Set(reflect.ValueOf(&x).Elem())
		} else {
			d.value(at, f.Value, elem, tags.element())
		}
		if f.Value.Kind == Null && elem.Kind() == reflect.Struct {
			d.Positions[at] = f.Value.Pos // a lone NAME: states an element with defaults only
		}
		v.SetMapIndex(key, elem)
	}
}

// named turns a list whose elements have a name into a map.
func (d *Decoder) named(path string, n *Node, key string) *Node {
	out := &Node{Pos: n.Pos, Kind: Map}
	for i, item := range n.Items {
		name := item.field(key)
		if item.Kind != Map || name == nil || name.Value.Kind != String {
			d.Report.Add(item.Pos, "", "%s: want a map with a %s", Index(path, i), key)
			continue
		}
		if have := out.field(name.Value.Text); have != nil {
			d.Report.Add(name.Value.Pos, "keep one of the two", "%s is already defined at %s", Join(path, have.Key),
				have.Pos)
			continue
		}
		rest := *item
		rest.Fields = slices.DeleteFunc(slices.Clone(item.Fields), func(f Field) bool { return f.Key == key })
		out.Fields = append(out.Fields, Field{Key: name.Value.Text, Pos: name.Value.Pos, Value: &rest})
	}
	return out
}

func (d *Decoder) list(path string, n *Node, v reflect.Value, tags fieldTags) {
	if n.Loose && n.Kind == String {
		n = split(n, tags.path)
	}
	if n.Kind != List {
		hint := ""
		if n.Kind != Map {
			hint = "put it in [ ]"
		}
		d.Report.wrong(path, n, "a list", hint)
		return
	}
	keep := min(d.Keep[path], v.Len())
	out := reflect.MakeSlice(v.Type(), keep, keep+len(n.Items))
	reflect.Copy(out, v)
	if v.Len() > keep {
		d.Positions.drop(path, keep)
	}
	for i, item := range n.Items {
		at := Index(path, keep+i)
		elem := newElem(v.Type().Elem())
		if item.Kind == Null && !d.Exact {
			d.Report.wrong(at, item, "a value", "remove it")
			continue
		}
		d.value(at, item, elem, tags.element())
		out = reflect.Append(out, elem)
	}
	v.Set(out)
}

// split turns the text of a flag or variable into a list: a, b; for paths a:b.
func split(n *Node, paths bool) *Node {
	out := &Node{Pos: n.Pos, Kind: List}
	separators := ","
	if paths {
		separators += string(os.PathListSeparator)
	}
	for _, s := range strings.FieldsFunc(n.Text, func(c rune) bool { return strings.ContainsRune(separators, c) }) {
		out.Items = append(out.Items, &Node{Pos: n.Pos, Kind: String, Text: strings.TrimSpace(s), Loose: true})
	}
	return out
}

// overlay lays a value of a free-form table over another, merging maps.
func (d *Decoder) overlay(path string, have any, n *Node) any {
	base, ok := have.(map[string]any)
	if !ok || n.Kind != Map {
		return d.free(path, n)
	}
	out := make(map[string]any, len(base)+len(n.Fields))
	maps.Copy(out, base)
	d.Positions[path] = n.Pos
	for _, f := range n.Fields {
		out[f.Key] = d.overlay(d.at(path, f.Key), out[f.Key], f.Value)
	}
	return out
}

// free decodes a free-form value as encoding/json would, except that integers stay int64, or json.Number if
// bigger.
func (d *Decoder) free(path string, n *Node) any {
	d.Positions[path] = n.Pos
	switch n.Kind {
	case Float:
		if v := n.Value.(float64); !d.Exact && (math.IsInf(v, 0) || math.IsNaN(v)) {
			d.Report.Add(n.Pos, "", "%s is not a finite number", n.Text) // not representable in JSON
		}
		return n.Value
	case Bool, Int:
		return n.Value
	case String:
		if d.Exact && n.Value != nil {
			return n.Value // a date
		}
		return d.expand(path, n, n.Text)
	case List:
		out := make([]any, len(n.Items))
		for i, item := range n.Items {
			out[i] = d.free(Index(path, i), item)
		}
		return out
	case Map:
		out := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			out[f.Key] = d.free(d.at(path, f.Key), f.Value)
		}
		return out
	}
	return nil
}
