package mcphttp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// The headers of MCP, in the spelling that net/http gives them.
const (
	VersionHeader = "Mcp-Protocol-Version"
	SessionHeader = "Mcp-Session-Id"
	MethodHeader  = "Mcp-Method"
	NameHeader    = "Mcp-Name"
)

// named maps the methods that need Mcp-Name to the member of params it mirrors.
// Those about tasks are of MCP's extension for them.
var named = map[string]string{protocol.MethodToolsCall: "name", protocol.MethodPromptsGet: "name", protocol.MethodResourcesRead: "uri",
	protocol.MethodTasksGet: "taskId", protocol.MethodTasksUpdate: "taskId", protocol.MethodTasksCancel: "taskId"}

// CheckHeaders reports how the headers that mirror a request's method and name
// fall short of the request: what an intermediary routed on must be what is run.
func CheckHeaders(h http.Header, m *jsonrpc.Message) error {
	for _, name := range []string{VersionHeader, MethodHeader, NameHeader} {
		if n := len(h[name]); n > 1 { // the intermediary may have read another of them
			return fmt.Errorf("header %s is there %d times", name, n)
		}
	}
	switch method := h.Get(MethodHeader); method {
	case m.Method:
	case "":
		return fmt.Errorf("header %s is required", MethodHeader)
	default:
		return fmt.Errorf("header %s is %q, the body's method %q", MethodHeader, method, m.Method)
	}
	member, ok := named[m.Method]
	if !ok {
		return nil
	}
	header := h.Get(NameHeader)
	if header == "" {
		return fmt.Errorf("header %s is required for %s", NameHeader, m.Method)
	}
	name, err := decodeValue(header)
	if err != nil {
		return fmt.Errorf("header %s: %w", NameHeader, err)
	}
	var inBody string
	if err := json.Unmarshal(rawjson.Get(m.Params, member), &inBody); err != nil || inBody != name {
		return fmt.Errorf("header %s is %q, the body's %s %q", NameHeader, name, member, inBody)
	}
	return nil
}

// decodeValue undoes the =?base64?…?= form of values that are no plain ASCII.
func decodeValue(v string) (string, error) {
	encoded, ok := strings.CutPrefix(v, "=?base64?")
	if !ok {
		return v, nil
	}
	if encoded, ok = strings.CutSuffix(encoded, "?="); !ok {
		return v, nil
	}
	text, err := base64.StdEncoding.DecodeString(encoded)
	return string(text), err
}

// acceptsEvents reports whether the client can be answered with an event stream.
// A client that does not say what it accepts takes anything.
func acceptsEvents(h http.Header) bool {
	accept := strings.ToLower(strings.Join(h["Accept"], ","))
	return accept == "" || strings.Contains(accept, "text/event-stream") ||
		strings.Contains(accept, "text/*") || strings.Contains(accept, "*/*")
}
