package toolset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/tools"
)

// ShownTool is how a toolset shows one tool. Everything else of it stays as its extension states it.
type ShownTool struct {
	// the name that clients see and call, in place of prefix and name; policies, the audit log and metrics keep the
	// registered name
	Name string `json:"name,omitempty"`
	// replaces the description
	Describe string `json:"describe,omitempty"`
	// what clients see of its arguments, by their names
	Args map[string]Arg `json:"args,omitempty"`
	// hints that clients get in place of those of the tool, whose risk stays as it is
	Annotations Annotations `json:"annotations,omitzero"`
	// what clients get of its results; it saves tokens and hides nothing
	Result Result `json:"result,omitzero"`
}

// Arg is how a toolset shows an argument of a tool.
type Arg struct {
	// a value that is always sent; clients neither see the argument nor may they send it
	Fix any `json:"fix,omitempty"`
	// the value that is sent for a client that does not state the argument, which it need not
	Default any `json:"default,omitempty"`
	// true: clients neither see the argument nor may they send it; only for one that need not be sent
	Hide bool `json:"hide,omitempty"`
	// replaces its description
	Describe string `json:"describe,omitempty"`
}

// UnmarshalJSON keeps the digits of numbers.
func (a *Arg) UnmarshalJSON(raw []byte) error {
	type plain Arg
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	d.DisallowUnknownFields()
	return d.Decode((*plain)(a))
}

// Annotations are hints of MCP about a tool.
type Annotations struct {
	Title           string `json:"title,omitempty"`           // a name for people
	ReadOnlyHint    *bool  `json:"readOnlyHint,omitempty"`    // it changes nothing
	DestructiveHint *bool  `json:"destructiveHint,omitempty"` // it may delete or overwrite
	IdempotentHint  *bool  `json:"idempotentHint,omitempty"`  // a second equal call changes nothing more
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`   // it reaches beyond a closed set of things
}

// Result is what clients get of the results of a tool.
type Result struct {
	// JSON Pointers into structuredContent and into texts that are JSON, such as number, user/login and items/*/id; *
	// is each element of a list. Where none leads to anything, all is kept; default: all
	Keep []string `json:"keep,omitempty"`
	// the tokens of a result, as bytes / 4, after which it is cut; default: no bound
	MaxTokens int `json:"max_tokens,omitempty" jsonschema:"minimum=0"`
}

const (
	maxArgs = 200 // of one tool
	maxKeep = 100 // pointers
)

// validateTools returns the problems with the tools of d. Whether there are such tools and arguments is known once
// their extensions run, see [Views.Unmatched].
func (d *Definition) validateTools() (list []Problem) {
	named := make(map[string]string) // registered names, by the names that clients see
	for _, registered := range slices.Sorted(maps.Keys(d.Tools)) {
		t, key := d.Tools[registered], strict.Join("tools", registered)
		add := func(at, hint, format string, args ...any) {
			list = append(list, Problem{strings.TrimSuffix(key+"."+at, "."), fmt.Sprintf(format, args...), hint})
		}
		switch other := named[t.Name]; {
		case t.Name == "":
		case checkName(t.Name) != "":
			add("name", "", "%q is not a tool's name: up to %d letters, digits, - and _", t.Name, tools.MaxName)
		case slices.Contains(tools.SearchNames(), t.Name):
			add("name", "choose another name", "%q is a tool of the host", t.Name)
		case other != "":
			add("name", "choose another name", "%q is already the name of %s", t.Name, other)
		}
		if t.Name != "" {
			named[t.Name] = registered
		}
		if t.Describe != "" && (strings.TrimSpace(t.Describe) == "" || len(t.Describe) > tools.MaxDescription) {
			add("describe", "", "has %d bytes, at most %d are allowed, and one that a model can read", len(t.Describe),
				tools.MaxDescription)
		}
		if t.Describe != "" && d.Describe[registered] != "" {
			add("describe", "keep one of the two", "describe of the toolset describes %s too", registered)
		}
		if !t.states() {
			add("", "such as describe, or args: {repo: {fix: acme/tracker}}", "states nothing")
		}
		t.validateArgs(add)
		t.Result.validate(add)
	}
	return list
}

// states reports whether t states anything.
func (t *ShownTool) states() bool { return t.Name != "" || t.Describe != "" || t.reshapes() }

// WithTools returns d with these shapes, by registered name. One that states nothing takes away that of d; those of
// other tools stay.
func (d Definition) WithTools(shapes map[string]ShownTool) Definition {
	d.Tools = maps.Clone(d.Tools)
	for name, t := range shapes {
		switch {
		case !t.states():
			delete(d.Tools, name)
		case d.Tools == nil:
			d.Tools = map[string]ShownTool{name: t}
		default:
			d.Tools[name] = t
		}
	}
	return d
}

// reshapes reports whether t states more than a name and a description.
func (t *ShownTool) reshapes() bool {
	return len(t.Args) > 0 || t.Annotations != (Annotations{}) || len(t.Result.Keep) > 0 || t.Result.MaxTokens != 0
}

func (t *ShownTool) validateArgs(add func(at, hint, format string, args ...any)) {
	if len(t.Args) > maxArgs {
		add("args", "", "%d arguments are more than %d", len(t.Args), maxArgs)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Args)) {
		a, at := t.Args[name], strict.Join("args", name)
		var ways []string
		for _, way := range []struct {
			key    string
			stated bool
		}{{"fix", a.Fix != nil}, {"default", a.Default != nil}, {"hide", a.Hide}} {
			if way.stated {
				ways = append(ways, way.key)
			}
		}
		switch {
		case len(ways) > 1:
			add(at, "keep one of them", "%s exclude each other", strings.Join(ways, " and "))
		case len(ways) == 0 && strings.TrimSpace(a.Describe) == "":
			add(at, "such as fix: VALUE, default: VALUE, hide: true or describe: TEXT", "states nothing")
		case a.Describe != "" && (a.Fix != nil || a.Hide):
			add(at+".describe", "leave it out", "describes an argument that clients do not see")
		}
		for key, value := range map[string]any{"fix": a.Fix, "default": a.Default} {
			if _, err := json.Marshal(value); err != nil {
				add(at+"."+key, "", "is no JSON value: %v", err)
			}
		}
	}
}

func (r *Result) validate(add func(at, hint, format string, args ...any)) {
	if r.Keep != nil && len(r.Keep) == 0 {
		add("result.keep", "leave it out to keep all", "is empty")
	}
	if r.MaxTokens < 0 {
		add("result.max_tokens", "leave it out for no bound", "%d is less than 1", r.MaxTokens)
	}
	if len(r.Keep) > maxKeep {
		add("result.keep", "", "%d pointers are more than %d", len(r.Keep), maxKeep)
	}
	for i, pointer := range r.Keep {
		switch path := strings.TrimPrefix(pointer, "/"); {
		case path == "" || strings.HasSuffix(path, "/") || strings.Contains(path, "//"):
			add("result.keep", "such as number or user/login", "%q leads nowhere", pointer)
		case slices.Contains(r.Keep[:i], pointer):
			add("result.keep", "", "%q is there twice", pointer)
		}
	}
}

// reshape returns how a selection shows the arguments and results of t, nil if as they are.
func (t *ShownTool) reshape() *tools.Reshape {
	if !t.reshapes() {
		return nil
	}
	encode := func(value any) json.RawMessage {
		if value == nil {
			return nil
		}
		raw, _ := json.Marshal(value) // was checked
		return raw
	}
	r := &tools.Reshape{Result: tools.Part(t.Result), Args: make(map[string]tools.Arg, len(t.Args))}
	for name, a := range t.Args {
		r.Args[name] = tools.Arg{
			Fix:      encode(a.Fix),
			Default:  encode(a.Default),
			Hide:     a.Hide,
			Describe: a.Describe,
		}
	}
	if t.Annotations != (Annotations{}) {
		r.Annotations = encode(t.Annotations)
	}
	return r
}
