package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/tasks"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/mcpext"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// toolsOnly are the capabilities of an extension that is not an MCP server.
var toolsOnly = json.RawMessage(`{"tools":{"listChanged":true}}`)

// Describe returns the description of the server that s sees: of the extension or destination that s names, whose
// instance for s is started if needed, or else of all extensions that have started. Texts of a server pass the
// policies of the response flow, and lose invisible characters.
func (g *Gateway) Describe(ctx context.Context, s *protocol.Session) (d protocol.Description, err error) {
	g.Clients.note(s) // a stateless client calls Describe first
	if s.Extension == "" {
		return g.describeAll(ctx, s)
	}
	c, err := g.Calls.Enter(ctx, &protocol.Call{Session: s, Extension: s.Extension, Method: protocol.MethodInitialize})
	if err != nil {
		return d, err
	}
	defer c.Snapshot.Leave()
	if c.Target.Base().Candidate.Manifest.Transport.Protocol != manifest.ProtocolMCP {
		own := &runtime.Handshake{Capabilities: toolsOnly}
		return protocol.Description{Capabilities: serverCapabilities(c, own)}, nil
	}
	i, release, err := c.Target.Acquire(ctx, unit.Want{Session: s})
	switch {
	// the caller is asked to sign in at its first call; after a refusal here, it would make no call
	case err != nil && g.SignIns.asks(c, err):
		return protocol.Description{Capabilities: toolsOnly}, nil
	case err != nil:
		return d, c.Blame(err)
	}
	defer release(nil)
	hs := i.Handshake()
	withheld, changed := c.Snapshot.Policies.WithholdsIntroduction(i)
	if changed {
		g.o.Changed()
	}
	said := rawjson.Set(emptyObject, "capabilities", serverCapabilities(c, hs))
	if hs.ServerInfo != nil && !withheld {
		said = rawjson.Set(said, "serverInfo", hs.ServerInfo)
	}
	if hs.Instructions != "" && !withheld {
		said = rawjson.Set(said, "instructions", rawjson.Quote(hs.Instructions))
	}
	return govern(ctx, c, said)
}

// serverCapabilities returns the capabilities of a server for the client that c describes it to.
func serverCapabilities(c *dispatch.Call, hs *runtime.Handshake) json.RawMessage {
	capabilities := c.Snapshot.WithSkills(c.Request.Extension, hs.Capabilities)
	if capabilities == nil {
		capabilities = emptyObject
	}
	_, isExtension := c.Target.(*unit.Extension)
	// the host notifies clients of changed tools, whether or not the server does
	if isExtension && (rawjson.Get(capabilities, "tools") != nil || len(hs.Tools) > 0) {
		capabilities = rawjson.Set(capabilities, "tools",
			rawjson.Set(rawjson.Get(capabilities, "tools"), "listChanged", json.RawMessage("true")))
	}
	if !c.View.MayHaveResources(c.Request.Extension) {
		capabilities = rawjson.Delete(capabilities, "resources")
	}
	for _, list := range []string{"prompts", "resources"} { // these lists grow when the operator accepts held items
		if has := rawjson.Get(capabilities, list); has != nil {
			capabilities = rawjson.Set(capabilities, list, rawjson.Set(has, "listChanged", json.RawMessage("true")))
		}
	}
	return capabilities
}

var emptyObject = json.RawMessage("{}")

// describeAll describes all extensions as one server. The settings of extensions of MCP come from servers; all
// else is the host's own. Settings that policies deny are left out: one server must not lock clients out of the
// others.
func (g *Gateway) describeAll(ctx context.Context, s *protocol.Session) (d protocol.Description, err error) {
	now := g.o.Snapshots.Enter()
	defer now.Leave()
	view, err := now.View(s)
	if err != nil {
		return d, err
	}
	declared := now.Declared
	if view != nil {
		declared, _ = now.DeclaredNow(view)
	}
	capabilities := capabilitiesOf(now, declared, view)
	if len(declared.List) == 0 {
		return protocol.Description{Capabilities: capabilities}, nil
	}
	c := &dispatch.Call{Request: &protocol.Call{Session: s}, Snapshot: now, Exchange: &governance.Exchange{
		Method:   protocol.MethodInitialize,
		Caller:   s.Caller,
		Session:  s.ID,
		Instance: s.Instance,
		Node:     s.Node,
		ToChild:  true,
	}}
	if d, err = govern(ctx, c, rawjson.Set(emptyObject, "capabilities", capabilities)); err == nil || ctx.Err() != nil {
		return d, err
	}
	g.o.Log.Debug("policies deny what extensions declare together, and a client is offered no extensions of MCP",
		"session", s.ID, "error", err)
	return protocol.Description{Capabilities: rawjson.Delete(capabilities, "extensions")}, nil
}

// govern passes a server's description through the policies, as the result of initialize or server/discover.
func govern(ctx context.Context, c *dispatch.Call, said json.RawMessage) (d protocol.Description, err error) {
	x := *c.Exchange
	if isModern(c.Request.Session) {
		x.Method = protocol.MethodDiscover
	}
	x.Response = display.VisibleJSON(said)
	if err := c.Snapshot.Policies.Pipeline.Reply(ctx, &x); err != nil {
		return d, c.Blame(err)
	}
	d.Capabilities, d.ServerInfo = rawjson.Get(x.Response, "capabilities"), rawjson.Get(x.Response, "serverInfo")
	d.Instructions, _ = rawjson.Text(rawjson.Get(x.Response, "instructions"))
	if !rawjson.IsObject(d.Capabilities) || d.ServerInfo != nil && !rawjson.IsObject(d.ServerInfo) {
		return d, c.Blame(protocol.Errorf(protocol.GovernanceUnavailable,
			"policies changed what the server says of itself into no answer to %s", x.Method))
	}
	return d, nil
}

// Mirrored returns the input schema of the tool that s knows by this name, if x-mcp-header in the schema has clients
// repeat arguments in HTTP headers; else nil.
func (g *Gateway) Mirrored(s *protocol.Session, tool string) json.RawMessage {
	schema := g.inputSchema(s, s.Extension, tool)
	if !bytes.Contains(schema, []byte("x-mcp-header")) {
		return nil
	}
	return schema
}

// inputSchema returns the input schema of a tool by the name that s knows it by. extension is "" for a client of all
// extensions.
func (g *Gateway) inputSchema(s *protocol.Session, extension, tool string) json.RawMessage {
	now := g.o.Snapshots.Load()
	view, err := now.View(s)
	if err != nil {
		return nil
	}
	if d := now.Destinations[extension]; d != nil {
		hs := d.Handshake()
		if hs == nil || !view.ShowsTool(extension, tool) {
			return nil
		}
		i := slices.IndexFunc(hs.Tools, func(t protocol.Tool) bool { return t.Name == tool })
		if i < 0 {
			return nil
		}
		return hs.Tools[i].InputSchema
	}
	catalog := view.Tools(now.Catalog)
	e, ok := catalog.Lookup(tool)
	if extension != "" {
		e, ok = catalog.LookupIn(extension, tool)
	}
	if !ok {
		return nil
	}
	return rawjson.Get(e.Own, "inputSchema")
}

// capabilitiesOf merges the capabilities of all extensions that view reaches. merged holds the extensions of MCP that
// those extensions declare.
func capabilitiesOf(now *snapshot.Snapshot, merged *mcpext.Merged, view *toolset.View) json.RawMessage {
	all := map[string]json.RawMessage{"tools": json.RawMessage(`{"listChanged":true}`)}
	declared := slices.DeleteFunc(slices.Clone(merged.List),
		func(x mcpext.Extension) bool { return x.ID == protocol.ExtensionTasks })
	modernTasks := false
	for _, x := range now.Extensions {
		if !view.Reaches(x.ID()) {
			continue
		}
		hs, capabilities := x.Handshake(), now.Capabilities(x)
		legacy, modern := tasks.Makes(hs)
		if beside, _ := tasks.Makes(x.Legacy.Handshake()); legacy || beside {
			all["tasks"] = json.RawMessage(tasks.LegacyCapability)
		}
		modernTasks = modernTasks || modern
		for key, value := range map[string]string{
			"resources":   `{"subscribe":true,"listChanged":true}`,
			"prompts":     `{"listChanged":true}`,
			"completions": `{}`,
			"logging":     `{}`,
		} {
			if rawjson.Get(capabilities, key) != nil && (key != "resources" || view.MayHaveResources(x.ID())) {
				all[key] = json.RawMessage(value)
			}
		}
	}
	if modernTasks {
		declared = append(declared, mcpext.Extension{ID: protocol.ExtensionTasks, Settings: json.RawMessage("{}")})
	}
	if len(declared) > 0 {
		all["extensions"] = mcpext.Encode(declared)
	}
	out, _ := json.Marshal(all) // valid JSON always encodes
	return out
}

// hasCapability reports whether an MCP server has a capability.
func hasCapability(hs *runtime.Handshake, key string) bool {
	return hs != nil && rawjson.Get(hs.Capabilities, key) != nil
}
