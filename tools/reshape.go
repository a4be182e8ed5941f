package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/schema"
	"github.com/exthost/exthost/protocol"
)

// Reshape is how a selection shows the arguments and results of a tool, beside its name and description.
type Reshape struct {
	Args        map[string]Arg  // by the name of the argument
	Annotations json.RawMessage // members that replace those of the tool's annotations; nil: none
	Result      Part
}

// reshaped is a tool whose arguments or results are shown in another way.
type reshaped struct {
	Reshape
	shown    *schema.Schema // what callers state
	fixed    []byte         // members of the arguments, such as "repo":"a/b","n":1
	defaults []member       // arguments that are sent if they are absent, sorted
	kept     *kept          // nil: all of a result
}

// is reports whether a tool is shown as r says.
func (s *reshaped) is(r *Reshape) bool {
	if s == nil || r == nil {
		return s == nil && r == nil
	}
	return reflect.DeepEqual(s.Reshape, *r)
}

// Reshaped reports whether a selection shows the tool with other arguments, annotations or results.
func (e *Entry) Reshaped() bool { return e.reshaped != nil }

// Original returns the tool of the catalog that a selection shows as e, or e.
func (e *Entry) Original() *Entry {
	if e.selected != nil {
		return e.selected
	}
	return e
}

// reshape sets in n, a copy of the catalog's tool e, how r shows it.
func (e *Entry) reshape(n *Entry, r *Reshape) error {
	shape := &reshaped{Reshape: *r}
	edits := make(map[string]json.RawMessage)
	if len(r.Args) > 0 {
		shown, err := e.narrow(r.Args)
		if err != nil {
			return err
		}
		doc, err := readSchema(shown)
		if err != nil {
			return fmt.Errorf("its arguments cannot be shown in part: %w", err)
		}
		if shape.shown = schema.Compile(doc); shape.shown.Err() != nil {
			return fmt.Errorf("its arguments cannot be shown in part: %w", shape.shown.Err())
		}
		n.InputSchema, edits["inputSchema"] = shown, shown
		for _, name := range slices.Sorted(maps.Keys(r.Args)) {
			switch a := r.Args[name]; {
			case a.Fix != nil:
				shape.fixed = appendMember(shape.fixed, name, a.Fix)
			case a.Default != nil:
				shape.defaults = append(shape.defaults, member{name, a.Default})
			}
		}
	}
	if r.Annotations != nil {
		annotations := rawjson.Get(e.Own, "annotations")
		if !isObject(annotations) {
			annotations = json.RawMessage(`{}`)
		}
		edits["annotations"] = rawjson.Edit(annotations, maps.Collect(rawjson.Members(r.Annotations)))
	}
	if shape.kept = keptOf(r.Result); shape.kept != nil {
		if output := rawjson.Get(e.Own, "outputSchema"); output != nil {
			edits["outputSchema"] = shape.kept.schema(output) // nil: it is not shown
		}
	}
	if len(edits) > 0 {
		n.Own, n.Descriptor = rawjson.Edit(n.Own, edits), rawjson.Edit(n.Descriptor, edits)
	}
	n.reshaped = shape
	return nil
}

// narrow returns the schema of the arguments that callers state.
func (e *Entry) narrow(args map[string]Arg) (json.RawMessage, error) {
	shown, named, err := narrow(e.InputSchema, args)
	for _, name := range slices.Sorted(maps.Keys(args)) {
		switch near := text.Nearest(name, named); {
		case slices.Contains(named, name):
		case near != "":
			return nil, fmt.Errorf("it has no argument %q, did you mean %q?", name, near)
		case len(named) == 0:
			return nil, fmt.Errorf("it has no argument %q, and names none", name)
		default:
			return nil, fmt.Errorf("it has no argument %q; there are %s", name,
				display.Cut(display.Visible(strings.Join(named, ", ")), 300))
		}
	}
	return shown, err
}

func appendMember(out []byte, name string, value json.RawMessage) []byte {
	if len(out) > 0 {
		out = append(out, ',')
	}
	return append(append(rawjson.AppendText(out, name), ':'), value...)
}

// Sent returns the arguments that a call of a reshaped tool sends for those that its caller states: with the fixed
// values, and the defaults of what is absent. Who states an argument that is not shown is refused. The error is that of
// [Entry.Validate], for the arguments that are shown. Those of other tools, and anything but an object, are returned
// as they are.
func (e *Entry) Sent(args json.RawMessage) (json.RawMessage, error) {
	if e.reshaped == nil || len(e.reshaped.Args) == 0 || !rawjson.IsObject(args) {
		return args, nil
	}
	var stated bool
	var wrong string
	present := make(map[string]bool)
	rawjson.Each(args, func(raw []byte, _ json.RawMessage) bool {
		stated = true
		key := string(raw)
		for name, a := range e.reshaped.Args {
			switch {
			case key == name && a.Fix == nil && !a.Hide:
				present[name] = true
			case strings.EqualFold(key, name): // some extensions ignore case
				wrong = string(raw)
			}
		}
		return wrong == ""
	})
	if wrong != "" {
		err := protocol.Errorf(protocol.InvalidArguments, "there is no argument %q to state here; leave it out",
			display.Cut(wrong, maxPath))
		err.Extension, err.Tool = e.Extension, e.Name
		return nil, err
	}
	if faults := e.reshaped.shown.Check(args); len(faults) > 0 {
		return nil, e.problemError(faults)
	}
	more := e.reshaped.fixed
	for _, m := range e.reshaped.defaults {
		if !present[m.key] {
			more = appendMember(slices.Clip(more), m.key, m.value)
		}
	}
	if len(more) == 0 {
		return args, nil
	}
	end := bytes.LastIndexByte(args, '}')
	out := append(make([]byte, 0, len(args)+len(more)+1), args[:end]...)
	if stated {
		out = append(out, ',')
	}
	return append(append(out, more...), args[end:]...), nil
}

// Shown returns the result of a call of a reshaped tool as its caller gets it. A result that is not that of a tool
// which did what it was asked for, and one of another tool, are returned as they are.
func (e *Entry) Shown(result json.RawMessage) json.RawMessage {
	if e.reshaped == nil || e.reshaped.kept == nil || !isFinal(result) {
		return result
	}
	return e.reshaped.kept.of(result)
}
