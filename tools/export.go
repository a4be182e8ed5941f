package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Format is the form in which a model vendor takes tool definitions.
type Format string

// The formats of [Export], each with what it produces.
const (
	Anthropic  Format = "anthropic"   // [{name, description, input_schema}], the tools field of the Messages API
	OpenAI     Format = "openai"      // [{type, name, description, parameters}], of the Responses API
	OpenAIChat Format = "openai-chat" // [{type, function: {name, description, parameters}}], of Chat Completions
	Gemini     Format = "gemini"      // {functionDeclarations: [{name, description, parametersJsonSchema}]}, one Tool
	MCP        Format = "mcp"         // {tools: [descriptor]}, a tools/list result
)

// Formats returns every format, in the order of the documentation.
func Formats() []Format { return []Format{Anthropic, OpenAI, OpenAIChat, Gemini, MCP} }

// Omission tells why a tool is missing from an export.
type Omission struct {
	Tool   string `json:"tool"`   // the registered name
	Reason string `json:"reason"` // for the tool's author
}

// vendor is how a format's schemas are made acceptable and its tools written.
type vendor struct {
	// adapt returns description and schema as the vendor takes them, or why it cannot.
	adapt       func(description string, schema json.RawMessage) (string, json.RawMessage, error)
	write       func(e *Entry, description string, schema json.RawMessage) json.RawMessage
	open, close string // around the list
}

var vendors = map[Format]vendor{
	Anthropic:  {forAnthropic, anthropicTool, "[", "]"},
	OpenAI:     {forOpenAI, openAITool, "[", "]"},
	OpenAIChat: {forOpenAI, openAIChatTool, "[", "]"},
	Gemini:     {forGemini, geminiTool, `{"functionDeclarations":[`, "]}"},
	MCP:        {asSent, mcpTool, `{"tools":[`, "]}"},
}

// Export writes the definitions of entries in a vendor's form. One definition the
// vendor does not take makes it refuse the whole request, so such a tool is left
// out, with an Omission that says why.
//
// A schema the vendor takes is written as it was sent. Where a rule can be met
// without changing what the schema accepts, it is rewritten first: a top-level
// allOf of plain objects is merged into them (anthropic, openai); a top-level
// anyOf or oneOf that only says which properties are required moves into the
// description, since every call is validated against the full schema anyway
// (anthropic, openai); an array without items gets "items": {}, a tuple written
// the old way becomes prefixItems, an object without properties gets none
// (openai); references are replaced by what they refer to and $schema and $defs
// go (gemini). An unknown format leaves out every tool.
func Export(f Format, entries []*Entry) (json.RawMessage, []Omission) {
	v, known := vendors[f]
	if !known {
		v = vendor{adapt: func(string, json.RawMessage) (string, json.RawMessage, error) {
			return "", nil, fmt.Errorf("there is no format %q; the formats are %v", f, Formats())
		}, open: "[", close: "]"}
	}
	var b bytes.Buffer
	var omitted []Omission
	b.WriteString(v.open)
	written := 0
	for _, e := range entries {
		description, schema, err := v.adapt(e.Description, e.InputSchema)
		if err != nil {
			omitted = append(omitted, Omission{e.Name, err.Error()})
			continue
		}
		if written++; written > 1 {
			b.WriteByte(',')
		}
		b.Write(v.write(e, description, schema))
	}
	b.WriteString(v.close)
	return b.Bytes(), omitted
}

func asSent(description string, schema json.RawMessage) (string, json.RawMessage, error) {
	return description, schema, nil
}

func mcpTool(e *Entry, _ string, _ json.RawMessage) json.RawMessage { return e.Descriptor }

func anthropicTool(e *Entry, description string, schema json.RawMessage) json.RawMessage {
	return object([]member{{"name", quote(e.Name)}, {"description", quote(description)}, {"input_schema", schema}})
}

func openAITool(e *Entry, description string, schema json.RawMessage) json.RawMessage {
	return object([]member{{"type", json.RawMessage(`"function"`)}, {"name", quote(e.Name)},
		{"description", quote(description)}, {"parameters", schema}})
}

func openAIChatTool(e *Entry, description string, schema json.RawMessage) json.RawMessage {
	function := object([]member{{"name", quote(e.Name)}, {"description", quote(description)}, {"parameters", schema}})
	return object([]member{{"type", json.RawMessage(`"function"`)}, {"function", function}})
}

func geminiTool(e *Entry, description string, schema json.RawMessage) json.RawMessage {
	return object([]member{{"name", quote(e.Name)}, {"description", quote(description)}, {"parametersJsonSchema", schema}})
}

func forAnthropic(description string, schema json.RawMessage) (string, json.RawMessage, error) {
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
			if !propertyKey(p.key) {
				return "", nil, fmt.Errorf("property %q: the vendor takes 1 to 64 characters of A-Z a-z 0-9 _ . -", cut(p.key, 80))
			}
		}
	}
	return description, schema, nil
}

func propertyKey(key string) bool {
	for _, r := range key {
		if !nameRune(r) && r != '.' {
			return false
		}
	}
	return key != "" && len(key) <= 64
}

func forOpenAI(description string, schema json.RawMessage) (string, json.RawMessage, error) {
	description, schema, err := flatten(description, schema, "allOf", "anyOf", "oneOf", "enum", "const", "not")
	if err != nil {
		return "", nil, err
	}
	schema = rewrite(schema, completeArray)
	ms := mustMembers(schema)
	if at(ms, "properties") == nil {
		schema = object(append(ms, member{"properties", json.RawMessage("{}")}))
	}
	return description, schema, nil
}

func forGemini(description string, schema json.RawMessage) (string, json.RawMessage, error) {
	schema, err := inline(schema)
	return description, schema, err
}
