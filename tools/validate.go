package tools

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/wire/schema"
	"github.com/exthost/exthost/protocol"
)

// Arguments returns raw, or {} if raw is empty or null.
func Arguments(raw json.RawMessage) json.RawMessage {
	if t := bytes.TrimSpace(raw); len(t) == 0 || string(t) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

// Validate checks arguments, normalized by [Arguments], against the tool's input schema. The error is a
// *protocol.Error of kind invalid_arguments whose message tells a model how to correct the arguments; its Data is
// a list of [Problem]. A tool whose schema does not compile accepts any object.
func (e *Entry) Validate(args json.RawMessage) error {
	args = Arguments(args)
	faults := schema.CheckObject(args)
	if faults == nil && e.schema != nil {
		faults = e.schema.Check(args)
	}
	if len(faults) == 0 {
		return nil
	}
	return e.problemError(faults)
}

// Problem is an error in arguments, as encoded in the Data of an error of [Entry.Validate].
type Problem struct {
	Path     string `json:"path"`              // JSON Pointer into the arguments; "" is the arguments themselves
	Expected string `json:"expected"`          // the schema's requirement, in words
	Got      string `json:"got"`               // the value sent, shortened
	Allowed  []any  `json:"allowed,omitempty"` // the values or property names to choose from, shortened
	Nearest  string `json:"nearest,omitempty"` // the allowed name closest to the one sent
}

// Bounds of an error of Validate.
const (
	maxProblems = 10
	maxPath     = 320     // bytes of a Problem.Path
	maxMessage  = 8 << 10 // bytes of the whole message
)

// String describes the problem in one line, for a model.
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: expected %s, got %s", cmp.Or(p.Path, "arguments"), p.Expected, p.Got)
	if p.Nearest != "" {
		fmt.Fprintf(&b, "; did you mean %s?", p.Nearest)
	}
	if len(p.Allowed) > 0 {
		texts := make([]string, len(p.Allowed))
		for i, v := range p.Allowed {
			texts[i] = schema.Show(v)
		}
		b.WriteString("; allowed: " + strings.Join(texts, ", "))
	}
	return b.String()
}

// problemError returns the error for faults, sorted by path.
func (e *Entry) problemError(faults []schema.Fault) *protocol.Error {
	slices.SortStableFunc(faults, func(a, b schema.Fault) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Expected, b.Expected))
	})
	var b strings.Builder
	b.WriteString("the arguments do not match the tool's input schema")
	listed := make([]Problem, min(len(faults), maxProblems))
	for i, f := range faults[:len(listed)] {
		listed[i] = Problem{display.Cut(f.Path, maxPath), f.Expected, f.Got, f.Allowed, text.Nearest(f.Name, f.Names)}
		b.WriteString("\n- " + listed[i].String())
	}
	if more := len(faults) - len(listed); more > 0 {
		fmt.Fprintf(&b, "\n- and at least %d more", more)
	}
	err := protocol.Errorf(protocol.InvalidArguments, "%s", display.Cut(b.String(), maxMessage))
	err.Extension, err.Tool = e.Extension, e.Name
	err.Data, _ = json.Marshal(listed) // strings, numbers and lists of them always encode
	return err
}
