package httpserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/exthost/exthost/protocol"
)

// seer is a backend that records the params of its calls.
type seer chan string

func (s seer) Attach(context.Context, *protocol.Session) error { return nil }

func (s seer) Do(_ context.Context, c *protocol.Call) (json.RawMessage, error) {
	s <- string(c.Params)
	return json.RawMessage(`{"content":[]}`), nil
}

// The trace in HTTP headers becomes the call's, in legacy and modern protocol versions.
func TestTraceContext(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	seen := make(seer, 1)
	addr := serve(t, Options{Backend: seen}, nil)
	h := http.Header{
		"Accept":      {"application/json, text/event-stream"},
		"Traceparent": {parent},
		"Tracestate":  {"vendor=1"},
	}
	opened := send(t, "POST", "http://"+addr+"/mcp", h,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	legacy := h.Clone()
	legacy["Mcp-Session-Id"] = []string{opened.Header.Get("Mcp-Session-Id")}
	newer := h.Clone()
	newer["Mcp-Protocol-Version"], newer["Mcp-Method"], newer["Mcp-Name"] = []string{
		"2026-07-28",
	}, []string{"tools/call"}, []string{"x"}
	const meta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
	for name, tt := range map[string]struct {
		header http.Header
		params string
	}{
		"2025-11-25": {legacy, `{"name":"x","arguments":{"n":12345678901234567890}}`},
		"2026-07-28": {newer, `{"name":"x","arguments":{"n":12345678901234567890},"_meta":{` + meta + `}}`},
	} {
		resp := send(t, "POST", "http://"+addr+"/mcp", tt.header,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":`+tt.params+`}`)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d", name, resp.StatusCode)
		}
		got := get(t, seen, "the call")
		if !strings.Contains(got, `"traceparent":"`+parent+`","tracestate":"vendor=1"}`) ||
			!strings.Contains(got, `{"n":12345678901234567890}`) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
