package runtime

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// mcp is the dialect of MCP servers: legacy ones with a session opened by initialize, and modern ones that are
// stateless and get the context in _meta of every request.
type mcp struct {
	log             *slog.Logger
	version         string          // the manifest's mcp_version
	preferOlder     bool            // try legacy versions first
	initializeFirst bool            // the program ends at server/discover as its first request
	legacyTransport bool            // the transport only exists in legacy versions
	probe           time.Duration   // see probeTimeout
	client          json.RawMessage // clientInfo
	relayed         json.RawMessage // client capabilities that the host relays
	answersRoots    bool            // the host answers roots/list
	envelope        json.RawMessage // the _meta of requests to a stateless server

	// Set by the handshake:
	discovering atomic.Bool    // server/discover was the first request, and no handshake has been answered
	modern      bool           // the server is stateless
	listChanges map[string]any // list changes announced by the server, as params of subscriptions/listen
}

func newMCP(s *Spec) *mcp {
	d := &mcp{
		log:             s.Logger,
		version:         s.Manifest.Transport.MCPVersion,
		legacyTransport: s.Manifest.Transport.Kind == manifest.KindSSE,
		preferOlder:     s.Older || s.InitializeFirst,
		initializeFirst: s.InitializeFirst,
		probe:           cmp.Or(s.probeTimeout, probeTimeout),
		relayed:         orEmpty(s.Capabilities),
	}
	d.answersRoots = len(s.Roots) > 0
	d.relayed = d.withRoots(d.relayed)
	if d.client = s.ClientInfo; d.client == nil {
		d.client = mustJSON(map[string]string{"name": "exthost", "version": s.HostVersion})
	}
	d.envelope = mustJSON(map[string]json.RawMessage{
		protocol.MetaProtocolVersion:    mustJSON(protocol.MCP20260728),
		protocol.MetaClientInfo:         d.client,
		protocol.MetaClientCapabilities: d.relayed,
	})
	return d
}

// withRoots adds the capability for roots if the host answers roots/list.
func (d *mcp) withRoots(capabilities json.RawMessage) json.RawMessage {
	if !d.answersRoots || rawjson.Get(capabilities, "roots") != nil {
		return capabilities
	}
	return rawjson.Set(capabilities, "roots", emptyObject)
}

func (*mcp) traits() traits {
	return traits{cancels: true, mayIgnoreCanceled: true, noisyHandshake: true}
}

// ping returns server/discover for a stateless server, which has no ping.
func (d *mcp) ping() (string, json.RawMessage) {
	if d.modern {
		return protocol.MethodDiscover, d.params(nil)
	}
	return protocol.MethodPing, emptyObject
}

func (d *mcp) relist(ctx context.Context, c *jsonrpc.Conn) (tools []json.RawMessage, err error) {
	params := d.params(nil)
	listed := 0
	var last json.RawMessage          // previous page
	asked := make(map[string]bool, 1) // cursors of the pages so far
	for range limits.pages {
		raw, err := c.Call(ctx, protocol.MethodToolsList, params, nil)
		if err != nil {
			return nil, err
		}
		if listed += len(raw); listed > limits.listed {
			return nil, protocol.Errorf(protocol.HandshakeInvalid, "its tools/list has more than %d MiB",
				limits.listed>>20)
		}
		page, ok := arrayOf[json.RawMessage](raw, "tools")
		if !ok || !rawjson.IsObject(raw) {
			return nil, notObject(protocol.MethodToolsList, raw)
		}
		if bytes.Equal(raw, last) { // the server ignores cursors and repeats the whole list
			page = nil
		}
		last = raw
		if tools = append(tools, page...); len(tools) > limits.tools {
			return nil, tooManyTools(len(tools))
		}
		cursor := textOf(raw, "nextCursor")
		if cursor == "" {
			return tools, nil
		}
		if asked[cursor] {
			d.log.Warn("the server repeats a cursor; its list of tools ends there", "cursor", cutLine([]byte(cursor)),
				"tools", len(tools))
			return tools, nil
		}
		asked[cursor] = true
		params = d.params(map[string]string{"cursor": cursor})
	}
	return nil, protocol.Errorf(protocol.HandshakeInvalid, "its tools/list does not end: more than %d pages",
		limits.pages)
}

// params returns the params of a request by the host itself.
func (d *mcp) params(own map[string]string) json.RawMessage {
	params := emptyObject
	if own != nil {
		params = mustJSON(own)
	}
	if d.modern {
		return rawjson.Set(params, "_meta", d.envelope)
	}
	return params
}

// outgoing passes on the caller's _meta without the keys that only legacy or only modern versions define. A server with
// a session gets none of these keys. A stateless server gets the protocol version of the host's connection. It gets the
// caller's capabilities and client info if the caller states them, because it acts on them, else the host's.
func (d *mcp) outgoing(r *Request, token json.RawMessage) (string, json.RawMessage, error) {
	params := r.params()
	asIs := token == nil && r.Meta == nil
	switch {
	case asIs && d.modern && r.Capabilities == nil && (r.Plain || !mayHave(params, "_meta")):
		return r.Method, prepend(params, "_meta", d.envelope), nil
	case asIs && !d.modern && (r.Plain || !mayHave(params, protocol.MetaPrefix)):
		return r.Method, params, nil
	}
	meta := rawjson.Get(params, "_meta")
	edits := d.versionEdits(meta, r.Capabilities)
	if r.Meta != nil {
		maps.Insert(edits, rawjson.Members(r.Meta))
	}
	if token != nil {
		edits[protocol.MetaProgressToken] = token
	}
	edited := rawjson.Edit(meta, edits)
	if string(edited) == "{}" {
		return r.Method, rawjson.Delete(params, "_meta"), nil
	}
	return r.Method, rawjson.Set(params, "_meta", edited), nil
}

// versionEdits returns the changes of a caller's _meta for the keys that only legacy or only modern versions define. If
// meta states no capabilities, the argument capabilities is used.
func (d *mcp) versionEdits(meta, capabilities json.RawMessage) map[string]json.RawMessage {
	edits := make(map[string]json.RawMessage)
	if !d.modern {
		for _, key := range []string{
			protocol.MetaProtocolVersion,
			protocol.MetaClientInfo,
			protocol.MetaClientCapabilities,
			protocol.MetaLogLevel,
		} {
			edits[key] = nil
		}
		return edits
	}
	maps.Insert(edits, rawjson.Members(d.envelope))
	if stated := rawjson.Get(meta, protocol.MetaClientCapabilities); stated != nil {
		capabilities = stated
	}
	if capabilities != nil {
		edits[protocol.MetaClientCapabilities] = d.withRoots(capabilities)
	}
	if rawjson.Get(meta, protocol.MetaClientInfo) != nil {
		delete(edits, protocol.MetaClientInfo)
	}
	return edits
}

func (*mcp) converter(string) converter { return nil }

// followChanges subscribes to list changes on a stateless server. The server answers the request when the subscription
// ends, which may be at any time.
func (d *mcp) followChanges(ctx context.Context, c *jsonrpc.Conn) (again bool) {
	if !d.modern || len(d.listChanges) == 0 {
		return false
	}
	_, err := c.Call(ctx, protocol.MethodListen, d.listenTo(d.listChanges), &jsonrpc.CallOptions{Standing: true})
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
		d.log.Warn("the server refuses to announce changes of its lists", "error", err)
		return false
	}
	return !errors.Is(err, jsonrpc.ErrClosed)
}

// probeTimeout is how long to wait for an answer to server/discover before initialize is sent too.
const probeTimeout = 2 * time.Second

// legacyVersions are the revisions with initialize, newest first.
var legacyVersions = []string{protocol.MCP20251125, protocol.MCP20250618, protocol.MCP20250326, protocol.MCP20241105}

func (d *mcp) handshake(ctx context.Context, c *jsonrpc.Conn) (*Handshake, descriptors, error) {
	h, err := d.establish(ctx, c)
	if err != nil {
		return nil, descriptors{}, err
	}
	h.Protocol, h.InitializeFirst = manifest.ProtocolMCP, d.initializeFirst
	d.listChanges = listChangesOf(h.Capabilities)
	d.modern = protocol.IsModern(h.ProtocolVersion)
	tools, err := d.relist(ctx, c)
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok && rawjson.Get(h.Capabilities, "tools") == nil {
		return h, descriptors{}, nil // no tools capability: the error is expected
	}
	if err != nil {
		return nil, descriptors{}, handshakeError(protocol.MethodToolsList, err)
	}
	return h, descriptors{tools: tools}, nil
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
			return d.tryLegacyFirst(ctx, c)
		default:
			d.discovering.Store(true)
			h, err := d.negotiate(ctx, c)
			if err == nil {
				d.discovering.Store(false)
			}
			return h, err
		}
	}
	return d.initialize(ctx, c)
}

// tryLegacyFirst sends server/discover only after initialize was refused.
func (d *mcp) tryLegacyFirst(ctx context.Context, c *jsonrpc.Conn) (*Handshake, error) {
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

// either returns the error of a server that has refused both handshakes: the error of initialize, unless
// server/discover asks for a login, as a modern server reveals nothing before the login.
func either(discover, initialize error) error {
	if protocol.KindOf(discover) == protocol.RequirementMissing &&
		protocol.KindOf(initialize) == protocol.HandshakeInvalid {
		return discover
	}
	return initialize
}

// negotiate tries modern versions first, and sends initialize after an error. A server that starts slowly gets both
// requests; if it refuses initialize, its late answer to server/discover is used.
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
	params := rawjson.Set(emptyObject, "_meta", d.envelope)
	raw, err := c.Call(ctx, protocol.MethodDiscover, params, nil)
	if refusesWhatItSpeaks(err) {
		raw, err = c.Call(ctx, protocol.MethodDiscover, params, nil)
	}
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

// refusesWhatItSpeaks reports whether a server refuses the version of a request, and lists this very version as one
// that it supports. A client then sends the request again.
func refusesWhatItSpeaks(err error) bool {
	const unsupportedVersion = -32022
	refused, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || refused.Code != unsupportedVersion {
		return false
	}
	versions, _ := arrayOf[string](refused.Data, "supported")
	return slices.Contains(versions, protocol.MCP20260728)
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
