package httpserver

import (
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestOneExtension serves all extensions together and single ones. A session of one is invalid for another.
func TestOneExtension(t *testing.T) {
	b := newFake()
	addr := "http://" + serve(t,
		Options{Backend: b, Serves: func(id string) bool { return id == "one" || id == "two" }}, nil)
	for name, transport := range map[string]mcp.Transport{
		"2025-11-25": &mcp.StreamableClientTransport{Endpoint: addr + "/one/mcp"},
		"2026-07-28": &mcp.StreamableClientTransport{Endpoint: addr + "/one/mcp"},
		"2024-11-05": &mcp.SSEClientTransport{Endpoint: addr + "/one/sse"},
	} {
		c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
		session, err := c.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: name})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := session.ListTools(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		session.Close()
	}
	const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`
	opened := send(t, http.MethodPost, addr+"/one/mcp", nil, initialize)
	id := opened.Header.Get("Mcp-Session-Id")
	ping := func(path string) int {
		return send(t, http.MethodPost, addr+path, http.Header{"Mcp-Session-Id": {id}},
			`{"jsonrpc":"2.0","id":1,"method":"ping"}`).StatusCode
	}
	for path, want := range map[string]int{
		"/one/mcp":     200,
		"/two/mcp":     404,
		"/mcp":         404,
		"/none/mcp":    404,
		"/one/nothing": 404,
		"/one":         404,
		"/one/mcp/":    200,
		"/mcp/":        404,
		"/one/sse/":    404,
	} {
		if got := ping(path); got != want {
			t.Errorf("the session of one at %s: %d, want %d", path, got, want)
		}
	}
	for _, strange := range []string{"//mcp", "/one%2Fmcp", "/../mcp", "/one/../two/mcp"} {
		if r := send(t, http.MethodGet, addr+strange, nil, ""); r.StatusCode == http.StatusOK &&
			!strings.Contains(r.Header.Get("Content-Type"), "event") {
			t.Errorf("%s: %s", strange, r.Status)
		}
	}
}
