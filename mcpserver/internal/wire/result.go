package wire

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// Response returns the response to the request with the given id.
func Response(id, result json.RawMessage, err error) *jsonrpc.Message {
	if err != nil {
		return &jsonrpc.Message{ID: id, Error: encodeError(err)}
	}
	return &jsonrpc.Message{ID: id, Result: result}
}

// ClientResult returns the result or error in the response of a client.
func ClientResult(m *jsonrpc.Message) (json.RawMessage, error) {
	if m.Invalid != nil {
		return nil, protocol.Errorf(protocol.InvalidResponse, "the client's answer: %w", m.Invalid)
	}
	if m.Error == nil {
		return m.Result, nil
	}
	var e protocol.WireError
	if err := json.Unmarshal(m.Error, &e); err != nil {
		return nil, protocol.Errorf(protocol.InvalidResponse, "the client's error is malformed: %w", err)
	}
	return nil, &protocol.Error{Kind: protocol.ExtensionError, Code: e.Code, Message: e.Message, Data: e.Data}
}

// failureKey is the _meta key of a tool failure's error data. It is not in structuredContent because clients validate
// that against the tool's outputSchema and would drop the whole result.
const failureKey = "exthost/error"

// ToolFailure returns the tools/call result that explains err to a model, or nil if err is not for models. Models can
// correct bad arguments and report a refusal. They read only the text, so it says when the call may have been carried
// out.
func ToolFailure(method string, err error) json.RawMessage {
	var e *protocol.Error
	if method != protocol.MethodToolsCall || !errors.As(err, &e) ||
		e.Kind != protocol.InvalidArguments && e.Kind != protocol.Rejected {
		return nil
	}
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	words := e.Message
	if e.Outcome != "" {
		words += "; it may have been carried out nevertheless"
	}
	result, err := json.Marshal(struct {
		Content []text                     `json:"content"`
		IsError bool                       `json:"isError"`
		Meta    map[string]json.RawMessage `json:"_meta"`
	}{[]text{{"text", words}}, true, map[string]json.RawMessage{failureKey: e.Wire().Data}})
	if err != nil {
		return nil // Data is not JSON, so the caller sends err itself
	}
	return result
}

// cacheable are the methods whose complete results must have ttlMs and cacheScope.
var cacheable = map[string]bool{
	protocol.MethodDiscover:          true,
	protocol.MethodToolsList:         true,
	protocol.MethodPromptsList:       true,
	protocol.MethodResourcesList:     true,
	protocol.MethodResourceTemplates: true,
	protocol.MethodResourcesRead:     true,
	protocol.MethodSkillsList:        true,
	protocol.MethodSkillsGet:         true,
}

// Complete adds the members that 2026-07-28 requires and result lacks: resultType and, for cacheable methods, values
// that forbid caching. They come first; the rest keeps its bytes.
func Complete(method string, result json.RawMessage) json.RawMessage {
	body := bytes.TrimLeft(result, " \t\r\n")
	if len(body) == 0 || body[0] != '{' || bytes.HasPrefix(body, uncached) {
		return result
	}
	var missing []byte
	kind := Member(body, "resultType")
	if kind == nil {
		missing = append(missing, `"resultType":"complete",`...)
	}
	if cacheable[method] && (kind == nil || string(kind) == `"complete"`) {
		if Member(body, "ttlMs") == nil {
			missing = append(missing, `"ttlMs":0,`...)
		}
		if Member(body, "cacheScope") == nil {
			missing = append(missing, `"cacheScope":"private",`...)
		}
	}
	return prepend(missing, body)
}

// uncached is the beginning of a result that lacks nothing. It saves a search through the result's other members.
var uncached = []byte("{" + protocol.UncachedMembers)

// ListenResult returns the result of subscriptions/listen when the server ends the subscription.
func ListenResult(id json.RawMessage) json.RawMessage {
	result := append([]byte(`{"resultType":"complete","_meta":{"`+protocol.MetaSubscriptionID+`":`), id...)
	return append(result, "}}"...)
}

// prepend inserts members, each followed by a comma, in front of object's members.
func prepend(members []byte, object json.RawMessage) json.RawMessage {
	if len(members) == 0 {
		return object
	}
	rest := object[1:]
	if bytes.TrimLeft(rest, " \t\r\n")[0] == '}' {
		members = members[:len(members)-1]
	}
	out := make([]byte, 0, len(object)+len(members))
	return append(append(append(out, '{'), members...), rest...)
}

// Member is rawjson.Get for rare keys of large objects: it parses only objects that may have the key.
func Member(object json.RawMessage, key string) json.RawMessage {
	if !bytes.Contains(object, []byte(key)) && !bytes.Contains(object, []byte(`\u`)) { // the key may be escaped
		return nil
	}
	return rawjson.Get(object, key)
}

// InitializeResult returns the result of initialize (MCP 2025-11-25, basic/lifecycle).
func InitializeResult(version string, d protocol.Description) (json.RawMessage, error) {
	return json.Marshal(struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ServerInfo      json.RawMessage `json:"serverInfo"`
		Instructions    string          `json:"instructions,omitempty"`
	}{version, d.Capabilities, d.ServerInfo, d.Instructions})
}

// DiscoverResult returns the result of server/discover (MCP 2026-07-28).
func DiscoverResult(d protocol.Description) (json.RawMessage, error) {
	result, err := json.Marshal(struct {
		SupportedVersions []string                   `json:"supportedVersions"`
		Capabilities      json.RawMessage            `json:"capabilities"`
		Instructions      string                     `json:"instructions,omitempty"`
		Meta              map[string]json.RawMessage `json:"_meta"`
	}{Revisions, d.Capabilities, d.Instructions, map[string]json.RawMessage{protocol.MetaServerInfo: d.ServerInfo}})
	if err != nil {
		return nil, err
	}
	return Complete(protocol.MethodDiscover, result), nil
}
