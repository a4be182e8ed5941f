package exthost

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// toolsOnly is what an extension offers that is no MCP server.
var toolsOnly = json.RawMessage(`{"tools":{"listChanged":true}}`)

// Describe returns what is offered to s: by its extension, whose instance for s is
// started if need be, or by all extensions together, as far as they have started. A
// server that is bridged speaks for itself.
func (h *Host) Describe(ctx context.Context, s *protocol.Session) (d protocol.Description, err error) {
	if s.Extension == "" {
		return protocol.Description{Capabilities: h.together()}, nil
	}
	r, err := h.route(ctx, &protocol.Call{Session: s, Extension: s.Extension, Method: protocol.MethodInitialize}, nil)
	if err != nil {
		return d, err
	}
	defer r.gen.leave()
	x := r.target
	if x.candidate.Manifest.Transport.Protocol != manifest.ProtocolMCP {
		return protocol.Description{Capabilities: toolsOnly}, nil
	}
	i, release, err := x.acquire(ctx, s, sessionKey(s))
	if err != nil {
		return d, r.blame(err)
	}
	defer release(nil)
	hs := i.Handshake()
	capabilities := hs.Capabilities
	if x.bridge == nil && (rawjson.Get(capabilities, "tools") != nil || len(hs.Tools) > 0) { // the host announces changes of its own making
		capabilities = rawjson.Set(capabilities, "tools", rawjson.Set(rawjson.Get(capabilities, "tools"), "listChanged", json.RawMessage("true")))
	}
	return protocol.Description{Capabilities: capabilities, Instructions: hs.Instructions, ServerInfo: hs.ServerInfo}, nil
}

// Mirrored returns the input schema of the tool that the client of s knows by that
// name, if it has x-mcp-header anywhere: arguments that headers repeat. Else nil.
func (h *Host) Mirrored(s *protocol.Session, tool string) json.RawMessage {
	schema := h.gen.Load().inputSchema(s.Extension, tool)
	if !bytes.Contains(schema, []byte("x-mcp-header")) {
		return nil
	}
	return schema
}

// inputSchema is that of the tool of this name at the front of an extension, or of all.
func (g *generation) inputSchema(extension, tool string) json.RawMessage {
	if x := g.bridged[extension]; x != nil {
		hs := x.handshake.Load()
		if hs == nil {
			return nil
		}
		i := slices.IndexFunc(hs.Tools, func(t protocol.Tool) bool { return t.Name == tool })
		if i < 0 {
			return nil
		}
		return hs.Tools[i].InputSchema
	}
	e, ok := g.catalog.Lookup(tool)
	if extension != "" {
		e, ok = g.catalog.LookupIn(extension, tool)
	}
	if !ok {
		return nil
	}
	return rawjson.Get(e.Own, "inputSchema")
}

// Serves reports whether there is an extension or destination of that id that may run here.
func (h *Host) Serves(id string) bool { return h.gen.Load().target(id) != nil }

// together is what all extensions offer as one.
func (h *Host) together() json.RawMessage {
	all := map[string]json.RawMessage{"tools": json.RawMessage(`{"listChanged":true}`)}
	for _, x := range h.gen.Load().extensions {
		hs := x.handshake.Load()
		older, newer := makesTasks(hs)
		if inOlder, _ := makesTasks(x.olderShook.Load()); older || inOlder {
			all["tasks"] = json.RawMessage(tasksOffered)
		}
		if newer {
			all["extensions"] = json.RawMessage(tasksExtensionOffered)
		}
		for key, value := range map[string]string{
			"resources": `{"subscribe":true,"listChanged":true}`, "prompts": `{"listChanged":true}`, "completions": `{}`, "logging": `{}`,
		} {
			if offers(hs, key) {
				all[key] = json.RawMessage(value)
			}
		}
	}
	out, _ := json.Marshal(all) // constants always encode
	return out
}

// offers reports whether an MCP server has a capability.
func offers(hs *runtime.Handshake, key string) bool {
	return hs != nil && rawjson.Get(hs.Capabilities, key) != nil
}
