package strict

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// field is a struct field as it appears in files.
type field struct {
	name  string // its json name
	index int
	typ   reflect.Type
	omit  bool // omitted when empty
	tags  fieldTags
}

// omitted reports whether the value v of the field is left out.
func (f *field) omitted(v reflect.Value) bool {
	empty := v.IsZero() || (v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() == 0
	return f.omit && empty
}

// fieldTags are the tags described in the package comment.
type fieldTags struct {
	alias    string
	path     bool
	secret   string // "true", "false" or ""
	list     string
	enum     []string
	min, max *int64
}

// element returns the tags for the elements of a list or map field.
func (t fieldTags) element() fieldTags {
	t.list = ""
	return t
}

var knownFields sync.Map // of reflect.Type to []field

// fieldsOf returns the fields of a struct that have a json name.
func fieldsOf(t reflect.Type) []field {
	if known, ok := knownFields.Load(t); ok {
		return known.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields = append(fields, field{name, i, f.Type, strings.Contains(options, "omit"), tagsOf(f.Tag)})
		}
	}
	knownFields.Store(t, fields)
	return fields
}

func tagsOf(tag reflect.StructTag) fieldTags {
	tags := fieldTags{
		alias:  tag.Get("alias"),
		path:   tag.Get("path") == "true",
		secret: tag.Get("secret"),
		list:   tag.Get("list"),
	}
	for option := range strings.SplitSeq(tag.Get("jsonschema"), ",") {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "enum":
			tags.enum = append(tags.enum, value)
		case "minimum":
			tags.min = bound(value)
		case "maximum":
			tags.max = bound(value)
		}
	}
	return tags
}

func bound(s string) *int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic("strict: " + err.Error()) // tags are code
	}
	return &n
}

// Keys returns the keys of a struct in the order of its fields.
func Keys(t reflect.Type) []string {
	var keys []string
	for _, f := range fieldsOf(t) {
		keys = append(keys, f.name)
	}
	return keys
}
