package mcpserver

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// The revisions served, newest first, and those with a handshake among them.
var (
	revisions = []string{protocol.MCP20260728, protocol.MCP20251125, protocol.MCP20250618, protocol.MCP20250326, protocol.MCP20241105}
	legacy    = revisions[1:]
)

// Error codes of MCP itself.
const (
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

// negotiate returns the revision an initializing client gets: the one it asks
// for, else the last that has a handshake.
func negotiate(asked string) string {
	if slices.Contains(legacy, asked) {
		return asked
	}
	return legacy[0]
}

type implementation struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// describe returns what a session is told.
func (s *Server) describe(ctx context.Context, session *protocol.Session) (d protocol.Description, err error) {
	d.Capabilities, d.Instructions = s.options.Capabilities, s.options.Instructions
	if known, ok := s.backend.(Describer); ok {
		if d, err = known.Describe(ctx, session); err != nil {
			return d, err
		}
	}
	if d.ServerInfo == nil {
		d.ServerInfo, err = json.Marshal(implementation{Name: s.options.Name, Version: s.options.Version})
	}
	return d, err
}

func (s *Server) initializeResult(ctx context.Context, session *protocol.Session) (json.RawMessage, error) {
	d, err := s.describe(ctx, session)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ServerInfo      json.RawMessage `json:"serverInfo"`
		Instructions    string          `json:"instructions,omitempty"`
	}{session.Version, d.Capabilities, d.ServerInfo, d.Instructions})
}

func (s *Server) discoverResult(ctx context.Context, session *protocol.Session) (json.RawMessage, error) {
	d, err := s.describe(ctx, session)
	if err != nil {
		return nil, err
	}
	result, err := json.Marshal(struct {
		SupportedVersions []string                   `json:"supportedVersions"`
		Capabilities      json.RawMessage            `json:"capabilities"`
		Instructions      string                     `json:"instructions,omitempty"`
		Meta              map[string]json.RawMessage `json:"_meta"`
	}{revisions, d.Capabilities, d.Instructions, map[string]json.RawMessage{protocol.MetaServerInfo: d.ServerInfo}})
	if err != nil {
		return nil, err
	}
	return complete(protocol.MethodDiscover, result), nil
}

// requestMeta is what a request of the stateless era says about its sender.
type requestMeta struct {
	version      string
	capabilities json.RawMessage
	logs         bool // it wants notifications/message
}

func readMeta(params json.RawMessage) (m requestMeta) {
	for key, value := range rawjson.Members(rawjson.Get(params, "_meta")) {
		switch key {
		case protocol.MetaProtocolVersion:
			_ = json.Unmarshal(value, &m.version) // not a string reads as missing
		case protocol.MetaClientCapabilities:
			m.capabilities = value
		case protocol.MetaLogLevel:
			m.logs = true
		}
	}
	return m
}

// session is the stay of a client that lasts as long as one request.
func (m *requestMeta) session(visit visit, front string) *protocol.Session {
	return &protocol.Session{Caller: visit.caller, Env: visit.env, Version: m.version, Extension: front, Capabilities: m.capabilities}
}

// check refuses a request without the members that every one must have.
func (m *requestMeta) check() error {
	switch {
	case m.version == "":
		return invalidParams("_meta needs " + protocol.MetaProtocolVersion)
	case m.version != protocol.MCP20260728:
		return unsupportedVersion(m.version, revisions)
	case len(m.capabilities) == 0 || m.capabilities[0] != '{':
		return invalidParams("_meta needs " + protocol.MetaClientCapabilities)
	}
	return nil
}

func invalidParams(text string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text}
}

func unsupportedVersion(requested string, supported []string) error {
	data, _ := json.Marshal(struct { // strings always encode
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{supported, requested})
	return &jsonrpc.Error{Code: codeUnsupportedVersion, Message: "unsupported protocol version", Data: data}
}
