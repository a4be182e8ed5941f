package dispatch

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/tools"
)

// toolCall holds the params of one tools/call, parsed once.
type toolCall struct {
	name      string          // as spelled by the caller
	arguments json.RawMessage // an object, without _meta, which only the host may write
	rest      json.RawMessage // the original params if these have more members; else nil
	ofPage    bool            // the call was bound to the server of a page
	by        string          // the tool that calls others, which the caller called; "": the caller called this one
}

// maxToolName bounds the name of a tool in a call, in bytes: traces, events and approval requests store the name,
// even of an unknown tool.
const maxToolName = 1 << 10

// readToolCall parses params. Absent and null arguments become {}.
func readToolCall(params json.RawMessage) (*toolCall, error) {
	t := &toolCall{}
	var name json.RawMessage
	members := 0
	for key, value := range rawjson.Members(params) {
		members++
		switch key {
		case "name":
			name = value
		case "arguments":
			t.arguments = value
		default:
			for _, own := range []string{"name", "arguments", "_meta"} {
				if key != own && strings.EqualFold(key, own) { // some extensions ignore case
					return nil, protocol.Errorf(protocol.InvalidArguments, "tools/call has a member %q: write %q", key,
						own)
				}
			}
			t.rest = params
		}
	}
	if members > 2 {
		t.rest = params // a member is repeated, which Edit repairs
	}
	if t.name, _ = rawjson.Text(name); t.name == "" {
		return nil, protocol.Errorf(protocol.InvalidArguments,
			`tools/call needs params {"name": "...", "arguments": {...}}`)
	}
	if err := t.checkName(); err != nil {
		return nil, err
	}
	t.rest = runtime.WithoutIdentity(t.rest)
	t.normalize()
	return t, nil
}

// checkName refuses a name that is too long for any tool.
func (t *toolCall) checkName() error {
	if len(t.name) > maxToolName {
		return protocol.Errorf(protocol.ToolNotFound, "there is no tool with a name of %d bytes", len(t.name))
	}
	return nil
}

// normalize makes absent arguments {} and removes their _meta, which only the host writes.
func (t *toolCall) normalize() {
	t.arguments = rawjson.Delete(tools.Arguments(t.arguments), "_meta")
}

// params returns the params with the extension's own tool name.
func (t *toolCall) params(tool string) json.RawMessage {
	if t.rest != nil {
		return rawjson.Edit(t.rest, map[string]json.RawMessage{"name": rawjson.Quote(tool), "arguments": t.arguments})
	}
	var space [128]byte
	head := append(rawjson.AppendText(append(space[:0], `{"name":`...), tool), `,"arguments":`...)
	return bytes.Join([][]byte{head, t.arguments, {'}'}}, nil) // does not clear its memory first, which make would
}

func encodeArguments(args any) (json.RawMessage, error) {
	switch args := args.(type) {
	case nil:
		return json.RawMessage("{}"), nil
	case json.RawMessage:
		if len(args) == 0 {
			return json.RawMessage("{}"), nil
		}
		if err := rawjson.Check(args); err != nil {
			return nil, protocol.Errorf(protocol.InvalidArguments, "arguments are not JSON: %w", err)
		}
		return args, nil
	}
	arguments, err := json.Marshal(args)
	if err != nil {
		return nil, protocol.Errorf(protocol.InvalidArguments, "arguments do not encode to JSON: %w", err)
	}
	return arguments, nil
}
