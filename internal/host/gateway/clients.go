package gateway

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/mcpext"
	"github.com/exthost/exthost/protocol"
)

// relayedMCP are the client capabilities that the host declares to shared MCP servers, without extensions of MCP. It
// relays requests that need them to callers, except to a caller that lacks the capability.
var relayedMCP = json.RawMessage(`{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}`)

// always is the extension of MCP that the host declares to servers even before any client has declared it. Clients
// without it lose nothing: pages of MCP Apps are in resources and _meta, and the text of the result is there too.
var always = mcpext.Extension{
	ID:       protocol.ExtensionUI,
	Settings: json.RawMessage(`{"mimeTypes":["text/html;profile=mcp-app"]}`),
}

// Clients are the extensions of MCP that clients have declared since the host was opened. A shared legacy server is
// told all of them at its start; a modern one is told those of the caller with each request.
type Clients struct {
	o *Options

	mu       sync.Mutex // guards the fields below
	declared *mcpext.Merged
	relayed  json.RawMessage
}

func newClients(o *Options) *Clients {
	c := &Clients{o: o}
	c.set(mcpext.Merge([]mcpext.Source{{List: []mcpext.Extension{always}}}))
	return c
}

func (c *Clients) set(declared *mcpext.Merged) {
	c.declared, c.relayed = declared, rawjson.Set(relayedMCP, "extensions", mcpext.Encode(declared.List))
}

// Relayed returns the client capabilities for an MCP server that several sessions share.
func (c *Clients) Relayed() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.relayed
}

// note adds the extensions that a client declares.
func (c *Clients) note(s *protocol.Session) {
	list, problems := mcpext.Read(s.Capabilities)
	if len(problems) > 0 {
		c.o.Log.Debug("a part of what a client declares is ignored", "session", s.ID, "problems", problems)
	}
	if len(list) == 0 {
		return
	}
	c.mu.Lock()
	before := len(c.declared.List)
	c.set(mcpext.Merge([]mcpext.Source{{List: c.declared.List}, {List: list}}))
	var added []string
	for _, x := range c.declared.List[before:] {
		added = append(added, x.ID)
	}
	c.mu.Unlock()
	if len(added) > 0 {
		c.o.Log.Info("a client declares MCP extensions that are new here; servers of MCP 2025-11-25 and older that "+
			"several clients share learn of them at their next start",
			"extensions", strings.Join(added, " "))
	}
}
