// Package wire reads the members that MCP adds to requests, and builds the results and errors for MCP clients. It is
// stateless.
package wire

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/protocol"
)

// The served versions of MCP, newest first.
var (
	Revisions = []string{
		protocol.MCP20260728,
		protocol.MCP20251125,
		protocol.MCP20250618,
		protocol.MCP20250326,
		protocol.MCP20241105,
	}
	Legacy = Revisions[1:]
)

// Negotiate returns the version for a client that initializes: the requested one if it is a served legacy version,
// else the newest legacy version (MCP 2025-11-25, basic/lifecycle, "Version Negotiation").
func Negotiate(requested string) string {
	if slices.Contains(Legacy, requested) {
		return requested
	}
	return Legacy[0]
}

// Meta holds the members of a modern request's _meta that replace the handshake.
type Meta struct {
	Version      string          // "" for a legacy request
	Capabilities json.RawMessage // the client's
	ClientInfo   json.RawMessage // nil if absent
	WantsLogs    bool            // the client wants notifications/message
}

// ReadMeta reads the Meta in the params of a request.
func ReadMeta(params json.RawMessage) (m Meta) {
	for key, value := range rawjson.Members(rawjson.Get(params, "_meta")) {
		switch key {
		case protocol.MetaProtocolVersion:
			_ = json.Unmarshal(value, &m.Version) // a value that is not a string counts as missing
		case protocol.MetaClientCapabilities:
			m.Capabilities = value
		case protocol.MetaClientInfo:
			m.ClientInfo = value
		case protocol.MetaLogLevel:
			m.WantsLogs = true
		}
	}
	return m
}

// Check returns an error if a member that every modern request needs is missing, or if the version is not 2026-07-28.
func (m *Meta) Check() error {
	switch {
	case m.Version == "":
		return InvalidParams("_meta needs " + protocol.MetaProtocolVersion)
	case m.Version != protocol.MCP20260728:
		return UnsupportedVersion(m.Version, Revisions)
	case len(m.Capabilities) == 0 || m.Capabilities[0] != '{':
		return InvalidParams("_meta needs " + protocol.MetaClientCapabilities)
	}
	return nil
}

// CheckHeaders returns an error if headers and _meta differ or a required member is missing.
func (m *Meta) CheckHeaders(h http.Header, request *jsonrpc.Message) error {
	version := h.Get(mcphttp.VersionHeader)
	switch {
	case version == "":
		return HeaderMismatch("header " + mcphttp.VersionHeader + " is required")
	case m.Version != "" && version != m.Version:
		return HeaderMismatch("header " + mcphttp.VersionHeader + " is " + version + ", " +
			protocol.MetaProtocolVersion + " " + m.Version)
	case version != protocol.MCP20260728:
		return UnsupportedVersion(version, Revisions)
	}
	if err := mcphttp.CheckHeaders(h, request); err != nil {
		return HeaderMismatch(err.Error())
	}
	return m.Check()
}

// Removed are the legacy methods that 2026-07-28 has removed.
var Removed = map[string]bool{
	protocol.MethodInitialize:           true,
	protocol.MethodPing:                 true,
	protocol.MethodSetLevel:             true,
	protocol.MethodResourcesSubscribe:   true,
	protocol.MethodResourcesUnsubscribe: true,
}
