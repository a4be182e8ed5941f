package runtime

import (
	"context"
	"encoding/json"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// lite is the dialect of scripts: without handshake, one call at a time. A request is {"method","params","id"} with the
// tool's arguments as params; it has no params if there are none.
type lite struct {
	offered descriptors
	methods map[string]string // tool name to method
}

func newLite(m *manifest.Manifest) *lite {
	d := &lite{offered: declaredDescriptors(m), methods: make(map[string]string, len(m.Tools))}
	for _, s := range m.Tools {
		d.methods[s.Name] = s.Name
		if s.Method != "" {
			d.methods[s.Name] = s.Method
		}
	}
	return d
}

func (*lite) traits() traits { return traits{bare: true, oneCall: true} }

func (*lite) ping() (string, json.RawMessage) { return "", nil }

func (d *lite) handshake(context.Context, *jsonrpc.Conn) (*Handshake, descriptors, error) {
	return &Handshake{Protocol: manifest.ProtocolLite}, d.offered, nil
}

func (d *lite) relist(context.Context, *jsonrpc.Conn) ([]json.RawMessage, error) {
	return d.offered.tools, nil
}

func (d *lite) outgoing(r *Request, _ json.RawMessage) (string, json.RawMessage, error) {
	if r.Method != protocol.MethodToolsCall {
		return "", nil, noMethod(manifest.ProtocolLite, r.Method)
	}
	name := textOf(r.Params, "name")
	method, ok := d.methods[name]
	if !ok {
		return "", nil, noTool(name)
	}
	params := arguments(r)
	if noMembers(params) {
		params = nil
	}
	return method, params, nil
}

func (*lite) converter(string) converter { return toolResult }

func (*lite) followChanges(context.Context, *jsonrpc.Conn) bool { return false }

// arguments returns the arguments of a tools/call. Their member _meta is Meta.
func arguments(r *Request) json.RawMessage {
	args := rawjson.Get(r.Params, "arguments")
	if !rawjson.IsObject(args) {
		args = emptyObject
	}
	if r.Meta != nil {
		args = rawjson.Set(args, "_meta", r.Meta)
	}
	return args
}

func noMethod(speaks, method string) *protocol.Error {
	return protocol.Errorf(protocol.ToolNotFound, "%s extensions have no method %q, only %s", speaks, method,
		protocol.MethodToolsCall)
}

func noTool(name string) *protocol.Error {
	return protocol.Errorf(protocol.ToolNotFound, "it has no tool %q", name)
}
