package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Format is a vendor's format of tool definitions.
type Format string

// The formats of [Export] and their output.
const (
	Anthropic  Format = "anthropic"   // [{name, description, input_schema}], the tools field of the Messages API
	OpenAI     Format = "openai"      // [{type, name, description, parameters, strict}], of the Responses API
	OpenAIChat Format = "openai-chat" // [{type, function: {name, description, parameters}}], of Chat Completions
	Gemini     Format = "gemini"      // {functionDeclarations: [{name, description, parametersJsonSchema}]}, one Tool
	MCP        Format = "mcp"         // {tools: [descriptor]}, a tools/list result
)

// Formats returns all formats.
func Formats() []Format { return []Format{Anthropic, OpenAI, OpenAIChat, Gemini, MCP} }

// Omission is a tool that an export leaves out.
type Omission struct {
	Tool   string `json:"tool"`   // the registered name
	Reason string `json:"reason"` // for the tool's author
}

// vendor adapts schemas to a format and encodes tools.
type vendor struct {
	// adapt returns description and schema in a form that the vendor accepts, or an error.
	adapt       func(description string, schema json.RawMessage) (string, json.RawMessage, error)
	write       func(e *Entry, description string, schema json.RawMessage) json.RawMessage
	open, close string // around the list
	search      string // the vendor's tool that loads deferred tools; "": not supported
}

var vendors = map[Format]vendor{
	Anthropic: {adaptAnthropic, anthropicTool, "[", "]",
		`{"type":"tool_search_tool_bm25_20251119","name":"tool_search_tool_bm25"}`},
	OpenAI:     {adaptOpenAI, openAITool, "[", "]", `{"type":"tool_search"}`},
	OpenAIChat: {adaptOpenAI, openAIChatTool, "[", "]", ""},
	Gemini:     {inline, geminiTool, `{"functionDeclarations":[`, "]}", ""},
	MCP: {
		func(description string, schema json.RawMessage) (string, json.RawMessage, error) {
			return description, schema, nil
		},
		func(e *Entry, _ string, _ json.RawMessage) json.RawMessage { return e.Descriptor },
		`{"tools":[`, "]}", "",
	},
}

// Export encodes the definitions of entries in a vendor's format. A vendor refuses a whole request for one invalid
// definition, so such a tool is left out and reported as an Omission.
//
// A schema that the vendor accepts keeps its bytes. Otherwise it is rewritten if the result accepts the same
// arguments: a top-level allOf of plain objects is merged (anthropic, openai); a top-level anyOf or oneOf that
// only lists required properties moves to the description, because every call is validated against the original
// schema (anthropic, openai); an array without items gets "items": {}, a tuple of older drafts becomes
// prefixItems, an object without properties gets an empty one (openai); references are replaced by their targets,
// and $schema and $defs are removed (gemini). An unknown format omits every tool.
func Export(f Format, entries []*Entry) (json.RawMessage, []Omission) {
	return export(f, entries, "", nil)
}

// ExportDeferred is Export for models that load definitions on demand. The vendor's search tool comes first. All tools
// are marked with defer_loading, except the host's own tools and those for which keep returns true; keep may be nil.
// Only anthropic and openai support it.
func ExportDeferred(f Format, entries []*Entry, keep func(*Entry) bool) (json.RawMessage, []Omission, error) {
	search := vendors[f].search
	if search == "" {
		return nil, nil, protocol.Errorf(protocol.InvalidArguments,
			"the format %q has no mark for tools that are loaded on demand; %s and %s have", f, Anthropic, OpenAI)
	}
	out, omitted := export(f, entries, search,
		func(e *Entry) bool { return e.Extension != "" && (keep == nil || !keep(e)) })
	return out, omitted, nil
}

// export encodes search, the vendor's search tool, unless it is "", and then entries. deferred selects the entries to
// mark with defer_loading.
func export(f Format, entries []*Entry, search string, deferred func(*Entry) bool) (json.RawMessage, []Omission) {
	v, known := vendors[f]
	if !known {
		v = vendor{
			adapt: func(string, json.RawMessage) (string, json.RawMessage, error) {
				return "", nil, fmt.Errorf("there is no format %q; the formats are %v", f, Formats())
			},
			open:  "[",
			close: "]",
		}
	}
	var b bytes.Buffer
	var omitted []Omission
	b.WriteString(v.open + search)
	written := min(len(search), 1)
	for _, e := range entries {
		description, schema, err := v.adapt(e.Description, e.InputSchema)
		if err != nil {
			omitted = append(omitted, Omission{e.Name, err.Error()})
			continue
		}
		if written++; written > 1 {
			b.WriteByte(',')
		}
		definition := v.write(e, description, schema)
		if deferred != nil && deferred(e) {
			definition = rawjson.Set(definition, "defer_loading", json.RawMessage("true"))
		}
		b.Write(definition)
	}
	b.WriteString(v.close)
	return b.Bytes(), omitted
}

func anthropicTool(e *Entry, description string, schema json.RawMessage) json.RawMessage {
	return object([]member{
		{"name", rawjson.Quote(e.Name)},
		{"description", rawjson.Quote(description)},
		{"input_schema", schema},
	})
}

// openAITool states strict, whose default in the Responses API makes every optional parameter mandatory. Chat
// Completions defaults to false.
func openAITool(e *Entry, description string, schema json.RawMessage) json.RawMessage {
	return object([]member{{"type", json.RawMessage(`"function"`)}, {"name", rawjson.Quote(e.Name)},
		{"description", rawjson.Quote(description)}, {"parameters", schema}, {"strict", json.RawMessage("false")}})
}

func openAIChatTool(e *Entry, description string, schema json.RawMessage) json.RawMessage {
	function := object([]member{
		{"name", rawjson.Quote(e.Name)},
		{"description", rawjson.Quote(description)},
		{"parameters", schema},
	})
	return object([]member{{"type", json.RawMessage(`"function"`)}, {"function", function}})
}

func geminiTool(e *Entry, description string, schema json.RawMessage) json.RawMessage {
	return object([]member{
		{"name", rawjson.Quote(e.Name)},
		{"description", rawjson.Quote(description)},
		{"parametersJsonSchema", schema},
	})
}

func adaptAnthropic(description string, schema json.RawMessage) (string, json.RawMessage, error) {
	description, schema, err := flatten(description, schema, "allOf", "anyOf", "oneOf")
	if err != nil {
		return "", nil, err
	}
	for _, m := range mustMembers(schema) {
		if m.key != "properties" {
			continue
		}
		properties, err := members(m.value)
		if err != nil {
			return "", nil, errors.New("properties is not an object")
		}
		for _, p := range properties {
			if !validPropertyKey(p.key) {
				return "", nil, fmt.Errorf("property %q: the vendor takes 1 to 64 characters of A-Z a-z 0-9 _ . -",
					display.Cut(p.key, 80))
			}
		}
	}
	return description, schema, nil
}

func validPropertyKey(key string) bool {
	for _, r := range key {
		if !nameRune(r) && r != '.' {
			return false
		}
	}
	return key != "" && len(key) <= 64
}

func adaptOpenAI(description string, schema json.RawMessage) (string, json.RawMessage, error) {
	description, schema, err := flatten(description, schema, "allOf", "anyOf", "oneOf", "enum", "const", "not")
	if err != nil {
		return "", nil, err
	}
	schema, _ = rewrite(schema, completeArray)
	ms := mustMembers(schema)
	if at(ms, "properties") == nil {
		schema = object(append(ms, member{"properties", json.RawMessage("{}")}))
	}
	return description, schema, nil
}
