package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// probeTimeout is how long to wait for an answer to server/discover before initialize is sent too.
const probeTimeout = 2 * time.Second

// legacyVersions are the revisions with initialize, newest first.
var legacyVersions = []string{protocol.MCP20251125, protocol.MCP20250618, protocol.MCP20250326, protocol.MCP20241105}

func (d *mcp) handshake(ctx context.Context, c *jsonrpc.Conn) (*Handshake, offer, error) {
	h, err := d.establish(ctx, c)
	if err != nil {
		return nil, offer{}, err
	}
	h.Protocol = manifest.ProtocolMCP
	d.listChanges = listChangesOf(h.Capabilities)
	d.modern = protocol.IsModern(h.ProtocolVersion)
	tools, err := d.relist(ctx, c)
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok && rawjson.Get(h.Capabilities, "tools") == nil {
		return h, offer{}, nil // no tools capability: the error is expected
	}
	if err != nil {
		return nil, offer{}, handshakeError(protocol.MethodToolsList, err)
	}
	return h, offer{tools: tools}, nil
}

// listChangesOf returns the list changes that a server announces, by their names in subscriptions/listen.
func listChangesOf(capabilities json.RawMessage) map[string]any {
	tells := make(map[string]any)
	for capability, name := range map[string]string{
		"tools":     "toolsListChanged",
		"prompts":   "promptsListChanged",
		"resources": "resourcesListChanged",
	} {
		if string(rawjson.Get(rawjson.Get(capabilities, capability), "listChanged")) == "true" {
			tells[name] = true
		}
	}
	return tells
}

func (d *mcp) establish(ctx context.Context, c *jsonrpc.Conn) (*Handshake, error) {
	switch d.version {
	case protocol.MCP20260728:
		return d.discover(ctx, c)
	case "", manifest.MCPVersionAuto:
		switch {
		case d.legacyTransport:
		case d.preferOlder:
			return d.initializeFirst(ctx, c)
		default:
			return d.negotiate(ctx, c)
		}
	}
	return d.initialize(ctx, c)
}

// initializeFirst tries legacy versions first.
func (d *mcp) initializeFirst(ctx context.Context, c *jsonrpc.Conn) (*Handshake, error) {
	h, err := d.initialize(ctx, c)
	if kind := protocol.KindOf(err); kind != protocol.HandshakeInvalid && kind != protocol.ProtocolVersion {
		return h, err
	}
	h, newer := d.discover(ctx, c)
	if newer == nil {
		return h, nil
	}
	return nil, either(newer, err)
}

// either returns the error of a server that has refused both handshakes: the one of initialize, unless server/discover
// asks for a login, without which a modern server reveals nothing.
func either(discover, initialize error) error {
	if protocol.KindOf(discover) == protocol.RequirementMissing &&
		protocol.KindOf(initialize) == protocol.HandshakeInvalid {
		return discover
	}
	return initialize
}

// negotiate tries modern versions first, and sends initialize after an error. A server that starts slowly gets both
// requests; a late answer to server/discover counts if the server refuses initialize.
func (d *mcp) negotiate(ctx context.Context, c *jsonrpc.Conn) (*Handshake, error) {
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		h   *Handshake
		err error
	}
	discovered := make(chan answer, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		h, err := d.discover(ctx, c)
		discovered <- answer{h, err}
	}()
	defer func() { cancel(); <-done }()

	timer := time.NewTimer(d.probe)
	defer timer.Stop()
	select {
	case a := <-discovered:
		if a.err == nil {
			return a.h, nil
		}
		h, err := d.initialize(ctx, c)
		if err != nil {
			return nil, either(a.err, err)
		}
		return h, nil
	case <-timer.C:
	}
	h, err := d.initialize(ctx, c)
	if protocol.KindOf(err) != protocol.HandshakeInvalid {
		return h, err
	}
	a := <-discovered
	if a.err == nil {
		return a.h, nil
	}
	return nil, either(a.err, err)
}

func (d *mcp) discover(ctx context.Context, c *jsonrpc.Conn) (*Handshake, error) {
	raw, err := c.Call(ctx, protocol.MethodDiscover, rawjson.Set(emptyObject, "_meta", d.envelope), nil)
	if err != nil {
		return nil, handshakeError(protocol.MethodDiscover, err)
	}
	versions, ok := arrayOf[string](raw, "supportedVersions")
	if !ok || len(versions) == 0 {
		return nil, notObject(protocol.MethodDiscover, raw)
	}
	if !slices.Contains(versions, protocol.MCP20260728) {
		return nil, protocol.Errorf(protocol.ProtocolVersion, "it speaks MCP %v, not %s", versions,
			protocol.MCP20260728)
	}
	h := readServer(raw, rawjson.Get(rawjson.Get(raw, "_meta"), protocol.MetaServerInfo))
	h.ProtocolVersion = protocol.MCP20260728
	return h, nil
}

func (d *mcp) initialize(ctx context.Context, c *jsonrpc.Conn) (*Handshake, error) {
	raw, err := c.Call(ctx, protocol.MethodInitialize, mustJSON(map[string]any{
		"protocolVersion": protocol.MCP20251125,
		"capabilities":    d.relayed,
		"clientInfo":      d.client,
	}), nil)
	if err != nil {
		return nil, handshakeError(protocol.MethodInitialize, err)
	}
	version := textOf(raw, "protocolVersion")
	switch {
	case version == "" && (rawjson.Get(raw, "tools") != nil || rawjson.Get(raw, "server_version") != nil):
		return nil, protocol.Errorf(protocol.HandshakeInvalid,
			`it answered the MCP handshake as a native extension does; set protocol = "native" under [transport]`)
	case version == "":
		return nil, notObject(protocol.MethodInitialize, raw)
	case !slices.Contains(legacyVersions, version):
		return nil, protocol.Errorf(protocol.ProtocolVersion, "it wants to speak MCP %s; this host speaks %v",
			cutLine([]byte(version)), legacyVersions)
	}
	if err := c.Notify(ctx, protocol.MethodInitialized, nil); err != nil {
		return nil, handshakeError(protocol.MethodInitialized, err)
	}
	h := readServer(raw, rawjson.Get(raw, "serverInfo"))
	h.ProtocolVersion = version
	return h, nil
}

func readServer(raw, info json.RawMessage) *Handshake {
	if len(info) == 0 || info[0] != '{' {
		info = nil
	}
	return &Handshake{
		ServerInfo:    info,
		ServerVersion: textOf(info, "version"),
		Capabilities:  rawjson.Get(raw, "capabilities"),
		Instructions:  textOf(raw, "instructions"),
	}
}
