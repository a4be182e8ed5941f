package tools

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/protocol"
)

// Problem is one thing wrong with arguments. Data of the error that
// [Entry.Validate] returns is a JSON list of them.
type Problem struct {
	Path     string `json:"path"`              // JSON Pointer into the arguments; "" is the arguments themselves
	Expected string `json:"expected"`          // what the schema wants there, in words
	Got      string `json:"got"`               // what was sent, cut
	Allowed  []any  `json:"allowed,omitempty"` // the values or property names to choose from, cut
	Nearest  string `json:"nearest,omitempty"` // the allowed one that was probably meant
}

// fault is a problem on its way into an error. The nearest name is looked for
// only when the problem is listed.
type fault struct {
	Problem
	sent  string
	names []string // the candidates for sent
}

// What an error lists at most.
const (
	maxProblems = 10
	maxAllowed  = 20
	maxText     = 160     // bytes of one text in a problem
	maxMessage  = 8 << 10 // bytes of the whole message
	maxFound    = 1000    // problems that are looked for at all
)

// String renders the problem as one line for a model.
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: expected %s, got %s", cmp.Or(p.Path, "arguments"), p.Expected, p.Got)
	if p.Nearest != "" {
		fmt.Fprintf(&b, "; did you mean %s?", p.Nearest)
	}
	if len(p.Allowed) > 0 {
		texts := make([]string, len(p.Allowed))
		for i, v := range p.Allowed {
			texts[i] = show(v)
		}
		b.WriteString("; allowed: " + strings.Join(texts, ", "))
	}
	return b.String()
}

// problemError lists what is wrong, in the order of the paths.
func problemError(e *Entry, faults []fault) *protocol.Error {
	slices.SortStableFunc(faults, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Expected, b.Expected))
	})
	var b strings.Builder
	b.WriteString("the arguments do not match the tool's input schema")
	listed := make([]Problem, min(len(faults), maxProblems))
	for i, f := range faults[:len(listed)] {
		f.Path, f.Nearest = cut(f.Path, 2*maxText), nearest.Of(f.sent, f.names)
		listed[i] = f.Problem
		b.WriteString("\n- " + f.String())
	}
	if more := len(faults) - len(listed); more > 0 {
		fmt.Fprintf(&b, "\n- and at least %d more", more)
	}
	err := protocol.Errorf(protocol.InvalidArguments, "%s", cut(b.String(), maxMessage))
	err.Extension, err.Tool = e.Extension, e.Name
	err.Data, _ = json.Marshal(listed) // strings, numbers and lists of them
	return err
}

// show renders a value in one short line; only the ends of it are ever read.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return string(quote(cut(v, 80)))
	case json.Number:
		return cut(v.String(), 80)
	case []any:
		return fmt.Sprintf("an array of %d", len(v))
	case map[string]any:
		return "an object with " + showKeys(v)
	}
	return fmt.Sprint(v)
}

// showTyped is show with the type in front of a scalar.
func showTyped(v any) string {
	switch v.(type) {
	case string:
		return "string " + show(v)
	case json.Number:
		return "number " + show(v)
	case bool:
		return "boolean " + show(v)
	}
	return show(v)
}

func showKeys(m map[string]any) string {
	switch {
	case len(m) == 0:
		return "no properties"
	case len(m) > 100:
		return fmt.Sprintf("%d properties", len(m))
	}
	keys := sortedKeys(m)
	texts := make([]string, 0, 5)
	for _, k := range keys[:min(len(keys), 5)] {
		texts = append(texts, cut(k, 40))
	}
	if len(keys) > 5 {
		texts = append(texts, "…")
	}
	return strings.Join(texts, ", ")
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// allowed cuts a list of values to what an error shows.
func allowed(values []any) []any {
	out := make([]any, 0, min(len(values), maxAllowed+1))
	for _, v := range values[:min(len(values), maxAllowed)] {
		switch v := v.(type) {
		case string:
			out = append(out, cut(v, maxText))
		case []any, map[string]any:
			out = append(out, show(v))
		default:
			out = append(out, v)
		}
	}
	if more := len(values) - maxAllowed; more > 0 {
		out = append(out, fmt.Sprintf("… and %d more", more))
	}
	return out
}
