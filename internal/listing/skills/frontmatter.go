package skills

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/text/strict"
)

// Bounds of the fields, in characters.
const (
	maxName          = 64
	maxDescription   = 1024
	maxCompatibility = 500

	maxFrontmatter = 64 << 10  // bytes
	maxRendered    = 128 << 10 // bytes of it as JSON, where an alias counts as often as it is used
)

var namePattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// fields checks the values of the fields that the specification knows. Others pass as they are, because every client of
// skills ignores those that it does not know.
var fields = map[string]func(value string) (wrong string){
	"name": func(value string) string {
		switch {
		case utf8.RuneCountInString(value) > maxName:
			return "has more than 64 characters"
		case !namePattern.MatchString(value):
			return "must be lower-case letters a-z, digits and single hyphens between them"
		}
		return ""
	},
	"description": func(value string) string {
		switch {
		case strings.TrimSpace(value) == "":
			return "is empty"
		case utf8.RuneCountInString(value) > maxDescription:
			return "has more than 1024 characters"
		}
		return ""
	},
	"compatibility": func(value string) string {
		if n := utf8.RuneCountInString(value); n == 0 || n > maxCompatibility {
			return "must have 1 to 500 characters"
		}
		return ""
	},
	"license":       func(string) string { return "" },
	"allowed-tools": func(string) string { return "" },
	"metadata":      nil, // a map
}

var fieldNames = slices.Sorted(maps.Keys(fields))

// section returns the section of the specification about a field.
func section(field string) string {
	if _, known := fields[field]; known {
		return "Agent Skills: " + field + " field"
	}
	return sectionFields
}

// parse reads the SKILL.md of the skill in folder.
func parse(folder string, data []byte) (*Skill, error) {
	block, err := frontmatterOf(data)
	if err != nil {
		return nil, err
	}
	var report strict.Report
	src := strict.NewSource(MainFile, block)
	if src.Invalid() >= 0 || !utf8.Valid(data) {
		return nil, wrong(sectionFormat, "%s is not UTF-8", MainFile)
	}
	root := strict.YAML(src, &report)
	if report.Failed() {
		d := report.Diagnostics[0]
		return nil, wrong(sectionFormat, "%s:%d: %s", MainFile, d.Line, display.Cut(display.Escape(d.Message), 300))
	}
	if root == nil || root.Kind != strict.Map {
		return nil, wrong(sectionFormat, "%s: the frontmatter is no map of fields", MainFile)
	}
	k := &Skill{}
	for _, f := range root.Fields {
		if err := k.field(f); err != nil {
			return nil, err
		}
	}
	for _, required := range []string{"name", "description"} {
		if root.At(required) == nil {
			hint := ""
			if near := text.Nearest(required, k.Unknown); near != "" {
				hint = "; it has " + display.Cut(display.Escape(near), maxName) + ", which may be meant"
			}
			return nil, wrong(section(required), "%s: the frontmatter has no %s%s", MainFile, required, hint)
		}
	}
	if k.Name != folder {
		return nil, wrong(section("name"), "%s: the name %s is not that of the folder, %s", MainFile, k.Name,
			display.Cut(display.Escape(folder), maxFileName))
	}
	if k.Frontmatter = appendNode(nil, root); len(k.Frontmatter) > maxRendered {
		return nil, wrong(sectionFormat, "%s: the frontmatter, its aliases replaced, has more than %d KiB", MainFile,
			maxRendered>>10)
	}
	return k, nil
}

// field checks one field of the frontmatter.
func (k *Skill) field(f strict.Field) error {
	refuse := func(format string, args ...any) error {
		return wrong(section(f.Key), "%s:%d: "+format, append([]any{MainFile, f.Pos.Line}, args...)...)
	}
	check, known := fields[f.Key]
	switch {
	case !known:
		k.Unknown = append(k.Unknown, f.Key)
		return nil
	case check == nil:
		if f.Value.Kind != strict.Map {
			return refuse("%s is no map of texts", f.Key)
		}
		for _, m := range f.Value.Fields {
			if why := noText(m.Value); why != "" {
				return refuse("%s.%s %s", f.Key, display.Cut(display.Escape(m.Key), maxName), why)
			}
		}
		return nil
	case noText(f.Value) != "":
		return refuse("%s %s", f.Key, noText(f.Value))
	}
	value := f.Value.Text
	if why := check(value); why != "" {
		return refuse("%s %s", f.Key, why)
	}
	switch f.Key {
	case "name":
		k.Name = value
	case "description":
		k.Description = value
	}
	return nil
}

// noText returns why a value is no text, "" if it is one. 1.0 is none: clients compare the frontmatter that they are
// told with the one that they read, and some take a number for a text and others do not.
func noText(n *strict.Node) string {
	switch n.Kind {
	case strict.String:
		return ""
	case strict.Null, strict.Map, strict.List:
		return "is " + n.Kind.String() + ", not a text"
	}
	return "is " + n.Kind.String() + ": write it in quotes"
}

// frontmatterOf returns the YAML between the lines ---, with an empty line in place of the first, so that its lines
// have the numbers of the file's.
func frontmatterOf(data []byte) ([]byte, error) {
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	if string(bytes.TrimRight(first, " \t\r")) != "---" {
		if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
			return nil, wrong(sectionFormat, "%s:1: begins with a byte order mark, where --- must stand", MainFile)
		}
		return nil, wrong(sectionFormat, "%s:1: does not begin with frontmatter: write --- on the first line", MainFile)
	}
	block := []byte("\n")
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		if string(bytes.TrimRight(line, " \t\r")) == "---" {
			return block, nil
		}
		if block = append(append(block, line...), '\n'); len(block) > maxFrontmatter {
			return nil, wrong(sectionFormat, "%s: the frontmatter has more than %d KiB", MainFile, maxFrontmatter>>10)
		}
	}
	return nil, wrong(sectionFormat, "%s: the frontmatter has no end: write --- on a line of its own", MainFile)
}

// appendNode appends the frontmatter, or a value of it, as JSON. It stops soon after maxRendered bytes.
func appendNode(out []byte, n *strict.Node) []byte {
	if len(out) > maxRendered {
		return out
	}
	switch n.Kind {
	case strict.Map:
		out = append(out, '{')
		for i, f := range n.Fields {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendNode(append(rawjson.AppendText(out, f.Key), ':'), f.Value)
		}
		return append(out, '}')
	case strict.List:
		out = append(out, '[')
		for i, item := range n.Items {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendNode(out, item)
		}
		return append(out, ']')
	case strict.Null, strict.Bool, strict.Int, strict.Float:
		return appendScalar(out, n)
	}
	return rawjson.AppendText(out, n.Text)
}

// appendScalar appends a number as it was written, as far as JSON can write it: 1.10 stays 1.10.
func appendScalar(out []byte, n *strict.Node) []byte {
	switch value := n.Value.(type) {
	case nil:
		return append(out, "null"...)
	case int64, json.Number, bool:
		return fmt.Append(out, value)
	}
	if json.Valid([]byte(n.Text)) {
		return append(out, n.Text...)
	}
	if number, err := json.Marshal(n.Value); err == nil {
		return append(out, number...)
	}
	return rawjson.AppendText(out, n.Text) // .inf and .nan
}

// unknown says which fields the specification does not know, with the field that a misspelt one may stand for.
func unknown(names []string) string {
	if len(names) == 0 {
		return ""
	}
	var shown []string
	for _, name := range names[:min(len(names), maxNamedLost)] {
		one := display.Cut(display.Escape(name), maxName)
		if near := text.Nearest(name, fieldNames); near != "" {
			one += " (did you mean " + near + "?)"
		}
		shown = append(shown, one)
	}
	if more := len(names) - maxNamedLost; more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
	}
	return "Agent Skills has no field " + strings.Join(shown, ", ") + "; clients are told of it as it is"
}
