package exthost

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// toolCall is the params of one tools/call, taken apart once.
type toolCall struct {
	name      string          // as the caller spells it
	arguments json.RawMessage // an object, without the _meta that only the host may write
	rest      json.RawMessage // the params as they came, when they hold more than these two; else nil
}

// readToolCall takes params apart. Absent and null arguments are {}.
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
				if key != own && strings.EqualFold(key, own) { // to some children it is the same
					return nil, protocol.Errorf(protocol.InvalidArguments, "tools/call has a member %q: write %q", key, own)
				}
			}
			t.rest = params
		}
	}
	if members > 2 {
		t.rest = params // a repeated member, which Edit makes one
	}
	if t.name, _ = rawjson.Text(name); t.name == "" {
		return nil, protocol.Errorf(protocol.InvalidArguments, `tools/call needs params {"name": "...", "arguments": {...}}`)
	}
	t.normalize()
	return t, nil
}

func (t *toolCall) normalize() {
	t.arguments = tools.Arguments(t.arguments)
	// An escape could spell the name as well.
	if bytes.Contains(t.arguments, []byte("_meta")) || bytes.IndexByte(t.arguments, '\\') >= 0 {
		t.arguments = rawjson.Delete(t.arguments, "_meta")
	}
}

// params are the params under the extension's own name for the tool.
func (t *toolCall) params(tool string) json.RawMessage {
	if t.rest != nil {
		return rawjson.Edit(t.rest, map[string]json.RawMessage{"name": quote(tool), "arguments": t.arguments})
	}
	out := make([]byte, 0, len(tool)+len(t.arguments)+len(`{"name":"","arguments":}`))
	out = append(rawjson.AppendText(append(out, `{"name":`...), tool), `,"arguments":`...)
	return append(append(out, t.arguments...), '}')
}

func quote(s string) json.RawMessage { return rawjson.AppendText(nil, s) }
