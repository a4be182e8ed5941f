package strict

import (
	"reflect"
	"strconv"
	"strings"
)

// field is one struct field as files see it.
type field struct {
	name  string // its json name
	index int
	typ   reflect.Type
	omit  bool // its json tag omits it when empty
	tags  fieldTags
}

// omitted reports whether v, the field's value, is left out.
func (f *field) omitted(v reflect.Value) bool {
	empty := v.IsZero() || (v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() == 0
	return f.omit && empty
}

// fieldTags is what a field's tags ask for beside its type.
type fieldTags struct {
	path     bool
	secret   string // "true", "false" or ""
	list     string // see the package comment
	enum     []string
	min, max *int64
}

// element returns the tags for the elements of the field's list or map.
func (t fieldTags) element() fieldTags {
	t.list = ""
	return t
}

// fieldsOf returns the fields of a struct that have a json name.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		tags := fieldTags{path: f.Tag.Get("path") == "true", secret: f.Tag.Get("secret"), list: f.Tag.Get("list")}
		for option := range strings.SplitSeq(f.Tag.Get("jsonschema"), ",") {
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
		fields = append(fields, field{name, i, f.Type, strings.Contains(options, "omit"), tags})
	}
	return fields
}

func bound(s string) *int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic("strict: " + err.Error()) // a tag is code
	}
	return &n
}
