package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/exthost/exthost/protocol"
)

// Tool describes one tool.
type Tool struct {
	Name        string // [A-Za-z0-9_.-]{1,128}
	Title       string // for people; optional
	Description string // for the model: what it does, when to use it

	// ReadOnly, Idempotent and Destructive are hints to hosts and people about what
	// a call does; by default nothing is claimed.
	ReadOnly, Idempotent, Destructive bool

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
// It panics when the name is empty or taken, or when In makes no object schema.
func AddTool[In, Out any](x *Extension, t Tool, f func(ctx context.Context, in In) (Out, error)) {
	if t.InputSchema == nil {
		t.InputSchema = schemaOf[In]()
	}
	if t.OutputSchema == nil && reflect.TypeFor[Out]().Kind() == reflect.Struct {
		t.OutputSchema = schemaOf[Out]()
	}
	x.add(t.Name, &tool{descriptor: t.descriptor(), call: func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error) {
		in, err := decode[In](arguments)
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

// decode reads the arguments; what does not fit is the caller's to mend.
func decode[In any](arguments json.RawMessage) (in In, err error) {
	if p, ok := any(&in).(*json.RawMessage); ok {
		*p = arguments
		return in, nil
	}
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return in, fmt.Errorf("the arguments do not fit: %w", err)
	}
	return in, nil
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
	text, _ := json.Marshal(string(value)) // a string always encodes
	result := append(append([]byte(`{"content":[{"type":"text","text":`), text...), `}]`...)
	if value[0] == '{' {
		result = append(append(result, `,"structuredContent":`...), value...)
	}
	return append(result, '}'), nil
}

func textResult(text string, isError bool) json.RawMessage {
	quoted, _ := json.Marshal(text) // a string always encodes
	result := append(append([]byte(`{"content":[{"type":"text","text":`), quoted...), `}]`...)
	if isError {
		result = append(result, `,"isError":true`...)
	}
	return append(result, '}')
}

func (t *Tool) descriptor() json.RawMessage {
	type annotations struct {
		ReadOnly    bool `json:"readOnlyHint,omitempty"`
		Idempotent  bool `json:"idempotentHint,omitempty"`
		Destructive bool `json:"destructiveHint,omitempty"`
	}
	data, err := json.Marshal(struct {
		Name         string          `json:"name"`
		Title        string          `json:"title,omitempty"`
		Description  string          `json:"description,omitempty"`
		InputSchema  json.RawMessage `json:"input_schema"`
		OutputSchema json.RawMessage `json:"output_schema,omitempty"`
		Annotations  annotations     `json:"annotations,omitzero"`
	}{t.Name, t.Title, t.Description, t.InputSchema, t.OutputSchema, annotations{t.ReadOnly, t.Idempotent, t.Destructive}})
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
