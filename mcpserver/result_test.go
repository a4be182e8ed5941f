package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/exthost/exthost/protocol"
)

func TestComplete(t *testing.T) {
	for _, test := range []struct{ method, result, want string }{
		{"tools/call", `{}`, `{"resultType":"complete"}`},
		{"tools/call", ` { "a":1 }`, `{"resultType":"complete", "a":1 }`},
		{"tools/call", `{"resultType":"complete","a":1}`, `{"resultType":"complete","a":1}`},
		{"tools/call", `{"resultType":"input_required"}`, `{"resultType":"input_required"}`},
		{"tools/call", `{"content":[{"resultType":"x"}]}`, `{"resultType":"complete","content":[{"resultType":"x"}]}`},
		{"tools/list", `{"tools":[]}`, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]}`},
		{"tools/list", `{"cacheScope":"public","tools":[]}`, `{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[]}`},
		{"resources/read", `{"ttlMs":5,"resultType":"complete"}`, `{"cacheScope":"private","ttlMs":5,"resultType":"complete"}`},
		{"resources/read", `{"resultType":"input_required"}`, `{"resultType":"input_required"}`},
		{"tools/call", `null`, `null`},
		{"tools/call", `[{}]`, `[{}]`},
		{"tools/call", ``, ``},
	} {
		if got := complete(test.method, json.RawMessage(test.result)); string(got) != test.want {
			t.Errorf("%s %s\n got %s\nwant %s", test.method, test.result, got, test.want)
		}
	}
}

func TestEncodeError(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{methodNotFound("x"), `{"code":-32601,"message":"method x is not served here"}`},
		{errors.New("a \"b\""), `{"code":-32603,"message":"a \"b\""}`},
		{protocol.Errorf(protocol.BreakerOpen, "later"), `{"code":-32017,"message":"later (breaker_open)","data":{"kind":"breaker_open"}}`},
		{&protocol.Error{Kind: protocol.ExtensionError, Message: "own", Data: json.RawMessage(`{"z": 1e400,"a":1}`)}, `{"code":-32603,"message":"own","data":{"z": 1e400,"a":1}}`},
	} {
		if got := encodeError(test.err); string(got) != test.want {
			t.Errorf("%v\n got %s\nwant %s", test.err, got, test.want)
		}
	}
}

func TestToolFailureWithBrokenDetails(t *testing.T) {
	err := &protocol.Error{Kind: protocol.Rejected, Message: "no", Data: json.RawMessage(`{`)}
	if got := toolFailure(protocol.MethodToolsCall, err); !json.Valid(got) {
		t.Errorf("%s", got)
	}
	if got := toolFailure("prompts/get", err); got != nil {
		t.Errorf("another method: %s", got)
	}
}

// FuzzPost throws bodies at the streamable HTTP front: whatever they are, the
// answer is one of the known statuses and, where it says so, JSON.
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
			return // it would stay open
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
	_ = json.Unmarshal(body, &m) // whatever it is
	return m
}
