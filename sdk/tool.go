package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Tool describes one tool.
type Tool struct {
	Name        string // [A-Za-z0-9_.-]{1,128}
	Title       string // for people; optional
	Description string // for the model: what it does, when to use it

	// ReadOnly, Idempotent, Destructive and OpenWorld are hints to hosts and people
	// about what a call does; by default nothing is claimed.
	ReadOnly, Idempotent, Destructive, OpenWorld bool

	// InputSchema and OutputSchema override what the function's types say.
	InputSchema, OutputSchema json.RawMessage
}

// AddTool adds a tool that calls f. In is a struct, whose fields and jsonschema
// tags make the input schema, or json.RawMessage for the arguments as they were
// sent. Out is a string, which becomes a text block; a [protocol.ToolResult],
// which goes out as it is; or anything that encodes to JSON, which becomes
// structured content. f runs in many goroutines at once. An error of f is a
// result that says so; an [*Error] is a JSON-RPC error.
//
// It panics when the name is no tool's or is taken, or when In makes no object schema.
func AddTool[In, Out any](x *Extension, t Tool, f func(ctx context.Context, in In) (Out, error)) {
	if t.InputSchema == nil {
		t.InputSchema = schemaOf[In]()
	}
	if t.OutputSchema == nil && reflect.TypeFor[Out]().Kind() == reflect.Struct {
		t.OutputSchema = schemaOf[Out]()
	}
	arguments := newDecoder[In]()
	x.add(t.Name, &tool{descriptor: t.descriptor(), call: func(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
		in, err := arguments.decode(raw)
		if err != nil {
			return nil, err
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return encode(out)
	}})
}

func encode(out any) (json.RawMessage, error) {
	switch out := out.(type) {
	case string:
		return textResult(out, false), nil
	case protocol.ToolResult:
		return json.RawMessage(out), nil
	}
	value, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("the result does not encode: %w", err)
	}
	result := appendContent(make([]byte, 0, 3*len(value)+64), value)
	if value[0] == '{' {
		result = append(append(result, `,"structuredContent":`...), value...)
	}
	return append(result, '}'), nil
}

func textResult(text string, isError bool) json.RawMessage {
	result := appendContent(make([]byte, 0, len(text)+len(text)/16+64), text)
	if isError {
		result = append(result, `,"isError":true`...)
	}
	return append(result, '}')
}

// appendContent appends a result's beginning, up to the end of its one text block.
func appendContent[T string | []byte](dst []byte, text T) []byte {
	return append(rawjson.AppendText(append(dst, `{"content":[{"type":"text","text":`...), text), `}]`...)
}

func (t *Tool) descriptor() json.RawMessage {
	type annotations struct {
		ReadOnly    bool `json:"readOnlyHint,omitempty"`
		Idempotent  bool `json:"idempotentHint,omitempty"`
		Destructive bool `json:"destructiveHint,omitempty"`
		OpenWorld   bool `json:"openWorldHint,omitempty"`
	}
	data, err := json.Marshal(struct {
		Name         string          `json:"name"`
		Title        string          `json:"title,omitempty"`
		Description  string          `json:"description,omitempty"`
		InputSchema  json.RawMessage `json:"input_schema"`
		OutputSchema json.RawMessage `json:"output_schema,omitempty"`
		Annotations  annotations     `json:"annotations,omitzero"`
	}{t.Name, t.Title, t.Description, t.InputSchema, t.OutputSchema, annotations{t.ReadOnly, t.Idempotent, t.Destructive, t.OpenWorld}})
	if err != nil {
		panic("sdk: tool " + t.Name + ": its schema is not JSON: " + err.Error())
	}
	return data
}

// schemaOf is the JSON Schema of T without references and dialect, which cost
// every model request tokens.
func schemaOf[T any]() json.RawMessage {
	if reflect.TypeFor[T]() == reflect.TypeFor[json.RawMessage]() {
		return json.RawMessage(`{"type":"object"}`)
	}
	if reflect.TypeFor[T]().Kind() != reflect.Struct {
		panic(fmt.Sprintf("sdk: %v is not a struct", reflect.TypeFor[T]()))
	}
	r := jsonschema.Reflector{Anonymous: true, DoNotReference: true}
	s := r.ReflectFromType(reflect.TypeFor[T]())
	s.Version = ""
	data, err := json.Marshal(s)
	if err != nil {
		panic("sdk: " + err.Error())
	}
	return data
}
