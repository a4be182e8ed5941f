package mcpserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/exthost/exthost/protocol"
)

// FuzzPost posts arbitrary bodies to the streamable HTTP endpoint. The answer must have a known status and be JSON if
// its content type says so.
func FuzzPost(f *testing.F) {
	for _, version := range []string{"", protocol.MCP20251125, protocol.MCP20260728, "x"} {
		f.Add(version, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`))
		f.Add(version, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	}
	f.Fuzz(func(t *testing.T, version string, body []byte) {
		s := New(mirror{}, Options{})
		defer s.Close()
		r := httptest.NewRequest(http.MethodPost, "/mcp", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Mcp-Protocol-Version", version)
		m := readMethod(body)
		r.Header.Set("Mcp-Method", m.Method)
		r.Header.Set("Mcp-Name", m.Params.Name)
		if m.Method == protocol.MethodListen {
			return // the request would stay open
		}
		w := httptest.NewRecorder()
		s.Handler("").ServeHTTP(w, r)
		switch w.Code {
		case 200, 202, 400, 404:
		default:
			t.Errorf("%q: status %d", body, w.Code)
		}
		if w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%q was answered with %q", body, w.Body)
		}
	})
}

type method struct {
	Method string
	Params struct{ Name string }
}

func readMethod(body []byte) (m method) {
	_ = json.Unmarshal(body, &m) // a malformed body has no method
	return m
}
