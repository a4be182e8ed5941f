package mcphttp

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// The headers of MCP in canonical form.
const (
	VersionHeader = "Mcp-Protocol-Version"
	SessionHeader = "Mcp-Session-Id"
	MethodHeader  = "Mcp-Method"
	NameHeader    = "Mcp-Name"
)

// RetryAfter sets the header that tells a client when to try again: after d in whole seconds, at least 1.
func RetryAfter(w http.ResponseWriter, d time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(d.Seconds())))))
}

// namedBy maps the methods that require Mcp-Name to the member of params that it repeats. The tasks methods belong to
// MCP's extension for tasks.
var namedBy = map[string]string{
	protocol.MethodToolsCall:     "name",
	protocol.MethodPromptsGet:    "name",
	protocol.MethodResourcesRead: "uri",
	protocol.MethodTasksGet:      "taskId",
	protocol.MethodTasksUpdate:   "taskId",
	protocol.MethodTasksCancel:   "taskId",
}

// CheckHeaders returns an error if Mcp-Method or Mcp-Name do not repeat the method and name of m.
// An intermediary may have authorized or routed the request by these headers, so a request that
// differs from them must not run.
func CheckHeaders(h http.Header, m *jsonrpc.Message) error {
	for _, name := range []string{VersionHeader, MethodHeader, NameHeader} {
		if n := len(h[name]); n > 1 { // an intermediary may have read another one of them
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
	member, ok := namedBy[m.Method]
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
	if inBody, ok := rawjson.Text(rawjson.Get(m.Params, member)); !ok || inBody != name {
		return fmt.Errorf("header %s is %q, the body's %s %q", NameHeader, name, member, inBody)
	}
	return nil
}

// SetHeaders sets the headers that repeat the method and name of m and, for a tools/call, the mirrored arguments of
// the tool.
func SetHeaders(h http.Header, m *jsonrpc.Message, mirrors map[string][]Mirror) {
	h[MethodHeader] = []string{m.Method}
	member, ok := namedBy[m.Method]
	if !ok {
		return
	}
	name, _ := rawjson.Text(rawjson.Get(m.Params, member))
	h[NameHeader] = []string{encodeValue(name)}
	if m.Method != protocol.MethodToolsCall {
		return
	}
	for _, mirror := range mirrors[name] {
		if text, ok := headerText(mirror.argument(m.Params)); ok {
			h[mirror.Header] = []string{encodeValue(text)}
		}
	}
}

// encodeValue encodes v as a header value: as =?base64?…?= if v is not plain ASCII or looks encoded, else unchanged.
func encodeValue(v string) string {
	plain := strings.TrimSpace(v) == v && !strings.HasPrefix(v, "=?base64?")
	for i := 0; i < len(v) && plain; i++ {
		plain = v[i] >= ' ' && v[i] < 0x7f
	}
	if plain {
		return v
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(v)) + "?="
}

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

// acceptsEvents reports whether the client accepts an event stream. A request without Accept accepts anything (RFC
// 9110, 12.5.1).
func acceptsEvents(h http.Header) bool {
	values := h["Accept"]
	if len(values) == 1 && strings.Contains(values[0], "text/event-stream") {
		return true
	}
	accept := strings.ToLower(strings.Join(values, ","))
	return accept == "" || strings.Contains(accept, "text/event-stream") ||
		strings.Contains(accept, "text/*") || strings.Contains(accept, "*/*")
}

// maxPolicyHeaders is the max total length of the headers passed to policies, in bytes.
const maxPolicyHeaders = 16 << 10

// noHeaders is shared by all requests without such headers. It must not be changed.
var noHeaders = map[string]string{}

// WithPolicyHeaders returns r with the named headers in its context, for policies of category authentication. If they
// are too long, it answers the request and returns nil.
func WithPolicyHeaders(w http.ResponseWriter, r *http.Request, names []string) *http.Request {
	headers, size := noHeaders, 0
	for _, name := range names {
		if values := r.Header.Values(name); len(values) > 0 {
			if len(headers) == 0 {
				headers = make(map[string]string)
			}
			value := strings.ToValidUTF8(strings.Join(values, ", "), "\ufffd") // gRPC strings must be UTF-8
			headers[strings.ToLower(name)], size = value, size+len(value)
		}
	}
	if size > maxPolicyHeaders {
		http.Error(w, fmt.Sprintf("the headers that policies judge have %d bytes, and at most %d are accepted", size,
			maxPolicyHeaders), http.StatusRequestHeaderFieldsTooLarge)
		return nil
	}
	return r.WithContext(protocol.WithHeaders(r.Context(), headers))
}
