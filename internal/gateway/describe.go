package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// toolsOnly are the capabilities of an extension that is no MCP server.
var toolsOnly = json.RawMessage(`{"tools":{"listChanged":true}}`)

// Describe returns what is offered to s: by its extension, whose instance for s is started
// if need be, or by all extensions that have started. A destination describes itself.
func (g *Gateway) Describe(ctx context.Context, s *protocol.Session) (d protocol.Description, err error) {
	if s.Extension == "" {
		return protocol.Description{Capabilities: g.capabilities()}, nil
	}
	c, err := g.Calls.Enter(ctx, &protocol.Call{Session: s, Extension: s.Extension, Method: protocol.MethodInitialize})
	if err != nil {
		return d, err
	}
	defer c.Snapshot.Leave()
	if c.Target.Base().Candidate.Manifest.Transport.Protocol != manifest.ProtocolMCP {
		return protocol.Description{Capabilities: toolsOnly}, nil
	}
	i, release, err := c.Target.Acquire(ctx, s, unit.SessionKey(s))
	if err != nil {
		return d, c.Blame(err)
	}
	defer release(nil)
	hs := i.Handshake()
	capabilities := hs.Capabilities
	_, isExtension := c.Target.(*unit.Extension)
	if isExtension && (rawjson.Get(capabilities, "tools") != nil || len(hs.Tools) > 0) { // the host announces changes of its own making
		capabilities = rawjson.Set(capabilities, "tools", rawjson.Set(rawjson.Get(capabilities, "tools"), "listChanged", json.RawMessage("true")))
	}
	return protocol.Description{Capabilities: capabilities, Instructions: hs.Instructions, ServerInfo: hs.ServerInfo}, nil
}

// Mirrored returns the input schema of the tool that the client of s knows by that name, if
// the schema has x-mcp-header, by which headers repeat arguments. Else it returns nil.
func (g *Gateway) Mirrored(s *protocol.Session, tool string) json.RawMessage {
	schema := g.inputSchema(s.Extension, tool)
	if !bytes.Contains(schema, []byte("x-mcp-header")) {
		return nil
	}
	return schema
}

// inputSchema returns the schema of a tool by its name for clients of an extension, or of
// all when that is "".
func (g *Gateway) inputSchema(extension, tool string) json.RawMessage {
	now := g.o.Snapshots.Load()
	if d := now.Destinations[extension]; d != nil {
		hs := d.Handshake()
		if hs == nil {
			return nil
		}
		i := slices.IndexFunc(hs.Tools, func(t protocol.Tool) bool { return t.Name == tool })
		if i < 0 {
			return nil
		}
		return hs.Tools[i].InputSchema
	}
	e, ok := now.Catalog.Lookup(tool)
	if extension != "" {
		e, ok = now.Catalog.LookupIn(extension, tool)
	}
	if !ok {
		return nil
	}
	return rawjson.Get(e.Own, "inputSchema")
}

// capabilities merges the capabilities of all extensions.
func (g *Gateway) capabilities() json.RawMessage {
	all := map[string]json.RawMessage{"tools": json.RawMessage(`{"listChanged":true}`)}
	for _, x := range g.o.Snapshots.Load().Extensions {
		hs := x.Handshake()
		legacy, modern := makesTasks(hs)
		if beside, _ := makesTasks(x.Legacy.Handshake()); legacy || beside {
			all["tasks"] = json.RawMessage(legacyTasks)
		}
		if modern {
			all["extensions"] = json.RawMessage(modernTasks)
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
