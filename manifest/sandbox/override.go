package sandbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
)

// Override replaces the manifest's [sandbox]: by a mode, or key by key.
type Override struct {
	// Strict, Off or "" for none; keys of a later file override the mode
	Mode       string   `json:"-"`
	Profile    string   `json:"profile,omitempty"`     // replaces [sandbox] profile
	Read       []string `json:"read,omitempty"`        // replaces [sandbox] read
	Write      []string `json:"write,omitempty"`       // replaces [sandbox] write
	Net        Net      `json:"net,omitempty"`         // replaces [sandbox] net
	BestEffort *bool    `json:"best_effort,omitempty"` // replaces [sandbox] best_effort
}

// The values of Override.Mode and of the default for extensions without [sandbox].
const (
	// what the manifest asks for; without a request its own folder and state directory
	Strict = "strict"
	Off    = "off" // not confined
)

var errOverride = errors.New(`want "off", "strict" or a map with profile, read, write, net and best_effort`)

// UnmarshalText reads a mode.
func (o *Override) UnmarshalText(text []byte) error {
	if word := string(text); word != Strict && word != Off {
		return errOverride
	}
	*o = Override{Mode: string(text)}
	return nil
}

// MarshalJSON writes o in the form that a file states.
func (o Override) MarshalJSON() ([]byte, error) {
	if word := o.Word(); word != "" {
		return json.Marshal(word)
	}
	type table Override
	return json.Marshal(table(o))
}

// IsZero reports whether o states nothing.
func (o Override) IsZero() bool {
	return reflect.ValueOf(o).IsZero()
}

// Word returns the mode, or "" if o states a table.
func (o Override) Word() string {
	if o.Profile == "" && o.Read == nil && o.Write == nil && o.Net == nil && o.BestEffort == nil {
		return o.Mode
	}
	return ""
}

// Validate returns all errors in o.
func (o Override) Validate() []Problem {
	return (&Table{Profile: o.Profile, Read: o.Read, Write: o.Write, Net: o.Net}).Validate()
}

// Over returns the table in force: o laid over t, or byDefault for an extension without a table. Where none states a
// profile, it is that of the command. Over returns nil if the extension is not confined.
func (o Override) Over(t *Table, byDefault, command string) *Table {
	switch {
	case o.Word() == Off, o.IsZero() && t == nil && byDefault != Strict:
		return nil
	case t == nil:
		t = &Table{Write: []string{State}}
	}
	merged := *t
	merged.Profile = cmp.Or(o.Profile, merged.Profile, profileOf(command))
	for _, list := range []struct {
		to   *[]string
		from []string
	}{{&merged.Read, o.Read}, {&merged.Write, o.Write}, {(*[]string)(&merged.Net), o.Net}} {
		if list.from != nil {
			*list.to = slices.Clone(list.from)
		}
	}
	if o.BestEffort != nil {
		merged.BestEffort = *o.BestEffort
	}
	return &merged
}

// profileOf returns the profile of a command that is an interpreter, "" for other programs.
func profileOf(command string) string {
	switch strings.TrimRight(filepath.Base(command), "0123456789.") { // such as python3.12
	case "node", "npx":
		return ProfileNode
	case "python":
		return ProfilePython
	case "uv", "uvx":
		return ProfileUV
	}
	return ""
}

// JSONSchema accepts a mode or a table.
func (Override) JSONSchema() *jsonschema.Schema {
	r := jsonschema.Reflector{Anonymous: true, ExpandedStruct: true, DoNotReference: true}
	type table Override
	s := r.Reflect(table{})
	s.Version = ""
	return &jsonschema.Schema{
		Description: `"off", "strict" or a map of the keys of [sandbox]`,
		OneOf:       []*jsonschema.Schema{{Type: "string", Enum: []any{Strict, Off}}, s},
	}
}
