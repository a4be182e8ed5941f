package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/invopop/jsonschema"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// Tool describes one tool.
type Tool struct {
	Name        string // [A-Za-z0-9_.-]{1,128}
	Title       string // for people; optional
	Description string // for the model: what it does, when to use it

	// ReadOnly, Idempotent, Destructive and OpenWorld are hints about the effects of a call; false is no hint.
	ReadOnly, Idempotent, Destructive, OpenWorld bool

	// InputSchema and OutputSchema replace the schemas of the function's types.
	InputSchema, OutputSchema json.RawMessage
}

// AddTool adds a tool that calls f, concurrently.
//
// In is json.RawMessage, for the arguments as sent, or a struct whose fields make the input schema: a field
// without omitempty is required; the tag jsonschema_description describes it; the tag jsonschema holds keywords
// such as "enum=a,enum=b", "minimum=1,maximum=9" or "required". With Tool.InputSchema, In is any type that JSON
// decodes into.
//
// Out is a string, which becomes a text block; a [protocol.ToolResult], which is sent as it is; or a type that
// encodes to JSON, which becomes a text block and, if it is an object, structured content. A struct also makes the
// output schema. An error of f becomes a result with isError, an [*Error] a JSON-RPC error. A ToolResult is sent after
// f has returned: it must not change any more.
//
// Arguments that lack a required member, at any depth of properties and lists, or do not decode, are an error for the
// caller, and f is not called.
//
// AddTool panics if the name is invalid or taken, and if In makes no input schema: it is not a struct, or a field
// contains its own type.
func AddTool[In, Out any](x *Extension, t Tool, f func(ctx context.Context, in In) (Out, error)) {
	if t.InputSchema == nil {
		t.InputSchema = schemaOf[In]()
	}
	if t.OutputSchema == nil && reflect.TypeFor[Out]().Kind() == reflect.Struct {
		t.OutputSchema = schemaOf[Out]()
	}
	arguments, needs := newDecoder[In](), shapeOf(t.InputSchema)
	x.add(t.Name, &tool{
		descriptor: t.descriptor(),
		call: func(ctx context.Context, raw json.RawMessage) (answer jsonrpc.Message, err error) {
			if err := needs.check("", orObject(raw)); err != nil {
				return answer, err
			}
			in, err := arguments.decode(raw)
			if err != nil {
				return answer, err
			}
			out, err := f(ctx, in)
			if err != nil {
				return answer, err
			}
			return encode(out)
		},
	})
}

// encode returns the answer with the result of a tool.
func encode(out any) (answer jsonrpc.Message, err error) {
	switch out := out.(type) {
	case string:
		answer.Encoder = textResult{out, false}
	case protocol.ToolResult:
		answer.Result = json.RawMessage(out)
	default:
		value, err := json.Marshal(out)
		if err != nil {
			return answer, fmt.Errorf("the result does not encode: %w", err)
		}
		answer.Encoder = valueResult(value)
	}
	return answer, nil
}

// textResult is a [jsonrpc.Encoder] of a result with a text.
type textResult struct {
	text    string
	isError bool
}

func (r textResult) Size() int { return len(r.text) + len(r.text)/16 + 64 }

func (r textResult) Append(frame []byte) []byte {
	frame = appendContent(frame, r.text)
	if r.isError {
		frame = append(frame, `,"isError":true`...)
	}
	return append(frame, '}')
}

// valueResult is a [jsonrpc.Encoder] of a result with a JSON value.
type valueResult []byte

func (r valueResult) Size() int {
	size := len(r) + bytes.Count(r, []byte{'"'}) + 64
	if r[0] == '{' {
		size += len(r)
	}
	return size
}

func (r valueResult) Append(frame []byte) []byte {
	frame = appendContent(frame, unsafe.String(&r[0], len(r)))
	if r[0] == '{' {
		frame = append(append(frame, `,"structuredContent":`...), r...)
	}
	return append(frame, '}')
}

// appendContent appends the start of a result, up to the end of its text block.
func appendContent(frame []byte, text string) []byte {
	return append(rawjson.AppendText(append(frame, `{"content":[{"type":"text","text":`...), text), `}]`...)
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
	}{
		t.Name,
		t.Title,
		t.Description,
		t.InputSchema,
		t.OutputSchema,
		annotations{t.ReadOnly, t.Idempotent, t.Destructive, t.OpenWorld},
	})
	if err != nil {
		panic("sdk: tool " + t.Name + ": its schema is not JSON: " + err.Error())
	}
	return data
}

// schemaOf returns the JSON Schema of T without $ref and $schema, which would cost tokens in every request to a
// model.
func schemaOf[T any]() json.RawMessage {
	if reflect.TypeFor[T]() == reflect.TypeFor[json.RawMessage]() {
		return json.RawMessage(`{"type":"object"}`)
	}
	if reflect.TypeFor[T]().Kind() != reflect.Struct {
		panic(fmt.Sprintf("sdk: %v is not a struct", reflect.TypeFor[T]()))
	}
	if field := recursiveField(reflect.TypeFor[T](), nil); field != "" {
		panic(fmt.Sprintf("sdk: field %s of %v contains its own type, and a schema without $ref has no end; state "+
			"the schema of the tool, or make the field a json.RawMessage", field, reflect.TypeFor[T]()))
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

// recursiveField returns the path of a field of t whose type contains itself, or "". within lists the structs that
// contain t.
func recursiveField(t reflect.Type, within []reflect.Type) string {
	if _, own := reflect.PointerTo(t).MethodByName("JSONSchema"); own || t.Kind() != reflect.Struct {
		return ""
	}
	within = append(slices.Clip(within), t)
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		inner := f.Type
		for containers := []reflect.Kind{
			reflect.Pointer,
			reflect.Slice,
			reflect.Array,
			reflect.Map,
		}; slices.Contains(containers, inner.Kind()); {
			if inner == inner.Elem() { // type List []List
				return f.Name
			}
			inner = inner.Elem()
		}
		if slices.Contains(within, inner) {
			return f.Name
		}
		if rest := recursiveField(inner, within); rest != "" {
			return f.Name + "." + rest
		}
	}
	return ""
}
