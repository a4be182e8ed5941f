package agentplugin

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
)

// rules bound a file. Other programs may nest their data in extensions deeply.
var rules = strict.Rules{Depth: 200, AtKeys: true, Plain: true}

// parse reads a JSON object without comments.
func parse(path string, data []byte) (*strict.Node, *strict.Refusal) {
	src := strict.NewSource(path, data)
	if bad := src.Invalid(); bad >= 0 {
		return nil, &strict.Refusal{Pos: src.Pos(bad), Message: "the file is not UTF-8"}
	}
	return strict.JSON(src, rules)
}

// meant reports whether a file that is not JSON was meant for this format.
func meant(data []byte) bool { return bytes.Contains(data, []byte("agent-plugins.org/schemas/")) }

// versionOf returns the version in a $schema of Agent Plugins, "" for any other text.
func versionOf(schema, file string) string {
	rest, ok := strings.CutPrefix(schema, "https://agent-plugins.org/schemas/")
	version, found := strings.CutSuffix(rest, "/"+file+".schema.json")
	if !ok || !found {
		return ""
	}
	return version
}

// description is plugin.json being read.
type description struct {
	*reading
	root *strict.Node
}

// manifest checks all fields. The id of the result is the name, "" if that is invalid.
func (d description) manifest() *manifest.Manifest {
	m := &manifest.Manifest{Portable: true}
	if !d.schema() {
		return m
	}
	texts := map[string]*string{
		"version":     &d.plugin.Identity.Version,
		"description": &m.Plugin.Description,
		"homepage":    &m.Meta.Homepage,
		"repository":  new(string),
		"license":     &m.Meta.License,
	}
	m.Plugin.ID = d.name()
	twice := repeated(d.root)
	for _, field := range d.root.Fields {
		text := texts[field.Key]
		switch {
		case twice[field.Key] && slices.Contains(pluginFields, field.Key):
			delete(twice, field.Key)
			d.reject(field.Pos, "5.2", "keep one of them", "%q is stated twice", field.Key)
		case text != nil:
			d.text(field, text)
		case field.Key == "author":
			d.author(field, &m.Meta.Author)
		case field.Key == "keywords":
			d.keywords(field)
		case field.Key == "extensions":
			d.extensions(field)
		case field.Key != "$schema" && field.Key != "name":
			d.unknown(field)
		}
	}
	m.Plugin.Version = d.plugin.Identity.Version
	m.Plugin.Description = short(m.Plugin.Description, 512)
	return m
}

// repeated returns the keys that an object states more than once.
func repeated(n *strict.Node) map[string]bool {
	seen := make(map[string]bool, len(n.Fields))
	for _, f := range n.Fields {
		_, again := seen[f.Key]
		seen[f.Key] = again
	}
	maps.DeleteFunc(seen, func(_ string, again bool) bool { return !again })
	return seen
}

// schema reports whether the file is of this version.
func (d description) schema() bool {
	n := d.root.At("$schema")
	switch {
	case n == nil:
		d.plugin.Foreign = true
		d.reject(d.root.Pos, "5.3", `state "$schema": "`+PluginSchema+`"`, "$schema is missing")
	case n.Kind != strict.String:
		d.plugin.Foreign = true
		d.reject(n.Pos, "5.3", "", "$schema is not a string")
	case n.Text != PluginSchema:
		d.plugin.Foreign = true
		if v := versionOf(n.Text, "plugin"); v != "" {
			d.reject(n.Pos, "5.2", "", "it is for version %q of Agent Plugins, and this host knows 1.0.0", short(v, 32))
		} else {
			d.reject(n.Pos, "5.2", "", "$schema is not that of Agent Plugins 1.0.0: %q", short(n.Text, 200))
		}
	}
	return !d.plugin.Foreign
}

// name returns the name if it is valid.
func (d description) name() string {
	n := d.root.At("name")
	if n == nil {
		d.reject(d.root.Pos, "5.3", `such as "name": "reports"`, "name is missing")
		return ""
	}
	if n.Kind != strict.String {
		d.reject(n.Pos, "5.3", "", "name is not a string")
		return ""
	}
	if err := ValidateName(n.Text); err != nil {
		section := "5.5"
		if n.Text == "" {
			section = "5.3"
		}
		d.reject(n.Pos, section, "", "%v", err)
		return ""
	}
	return n.Text
}

// text stores the string of a field.
func (d description) text(field strict.Field, to *string) {
	if field.Value.Kind != strict.String {
		d.reject(field.Pos, "5.4", "", "%s is not a string", field.Key)
		return
	}
	*to = field.Value.Text
}

var authorFields = []string{"name", "email", "url"}

func (d description) author(field strict.Field, name *string) {
	if field.Value.Kind != strict.Map {
		d.reject(field.Pos, "5.4", `write { "name": "…" }`, "author is not an object")
		return
	}
	twice := repeated(field.Value)
	for _, part := range field.Value.Fields {
		switch {
		case twice[part.Key]:
			d.reject(part.Pos, "5.4", "keep one of them", "author.%s is stated twice", part.Key)
		case !slices.Contains(authorFields, part.Key):
			d.reject(part.Pos, "5.4", strict.DidYouMean(part.Key, authorFields), "author has no field %q", part.Key)
		case part.Value.Kind != strict.String:
			d.reject(part.Pos, "5.4", "", "author.%s is not a string", part.Key)
		case part.Key == "name":
			*name = part.Value.Text
		}
	}
}

func (d description) keywords(field strict.Field) {
	if field.Value.Kind != strict.List {
		d.reject(field.Pos, "5.4", "", "keywords is not a list")
		return
	}
	for i, word := range field.Value.Items {
		if word.Kind != strict.String {
			d.reject(word.Pos, "5.4", "", "keywords[%d] is not a string", i)
		}
	}
}

// extensions checks that every member is an object. Its content is its owner's.
func (d description) extensions(field strict.Field) {
	if field.Value.Kind != strict.Map {
		d.warn(field.Pos, "8.1", "", "extensions is not an object, and is ignored")
		return
	}
	twice := repeated(field.Value)
	for _, part := range field.Value.Fields {
		switch {
		case part.Value.Kind != strict.Map:
			d.reject(part.Pos, "8.1", "", "extensions[%q] is not an object", part.Key)
		case part.Key == Namespace && twice[Namespace]:
			d.reject(part.Pos, "8.1", "keep one of them", "extensions[%q] is stated twice", part.Key)
		}
	}
}

// pluginFields are the permitted fields of plugin.json.
var pluginFields = []string{"$schema", "name", "version", "description", "author", "homepage", "repository", "license",
	"keywords", "extensions"}

func (d description) unknown(field strict.Field) {
	if len(d.plugin.Notes) == maxNotes {
		return
	}
	hint := strict.DidYouMean(field.Key, pluginFields)
	if hint == "" {
		hint = "data for one client belongs into extensions"
	}
	d.warn(field.Pos, "5.2", hint, "%q is not a field of plugin.json, and is ignored", short(field.Key, 100))
}
