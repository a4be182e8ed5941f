//go:build unix

package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

func mcpSpec(t testing.TB, script, version string) Spec {
	s := spec(t, script)
	s.Manifest.Transport.Protocol, s.Manifest.Transport.MCPVersion = manifest.ProtocolMCP, version
	return s
}

func toolNames(h *Handshake) (names []string) {
	for _, tool := range h.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// TestSDKServer talks to servers of the official SDK that speak one revision or both.
func TestSDKServer(t *testing.T) {
	for name, c := range map[string]struct{ script, version, revision string }{
		"both, auto":             {"mcp", manifest.MCPVersionAuto, protocol.MCP20260728},
		"both, pinned to legacy": {"mcp", protocol.MCP20251125, protocol.MCP20251125},
		"both, pinned to modern": {"mcp", protocol.MCP20260728, protocol.MCP20260728},
		"legacy, auto":           {"mcp 2025-11-25", manifest.MCPVersionAuto, protocol.MCP20251125},
		"older, auto":            {"mcp 2025-06-18", manifest.MCPVersionAuto, protocol.MCP20250618},
		"modern, auto":           {"mcp 2026-07-28", manifest.MCPVersionAuto, protocol.MCP20260728},
	} {
		t.Run(name, func(t *testing.T) {
			fault(t)
			s := mcpSpec(t, c.script, c.version)
			changed := make(chan struct{}, 1)
			s.ToolsChanged = func() { signal(changed) }
			s.Options.ShutdownGrace = 10 * patience // it must exit by itself
			r := start(t, s)
			h := r.Handshake()
			if h.Protocol != "mcp" || h.ProtocolVersion != c.revision || h.Instructions != "ask kindly" ||
				r.Info().ProtocolVersion != c.revision {
				t.Errorf("handshake = %+v, want revision %s", h, c.revision)
			}
			if diff := cmp.Diff([]string{"add", "echo", "fail", "progress", "sleep"}, toolNames(h)); diff != "" {
				t.Error(diff)
			}
			sdkCalls(t, r)
			if _, err := r.request(protocol.MethodToolsCall, `{"name":"add","arguments":{}}`); err != nil {
				t.Fatal(err)
			}
			await(t, changed)
			if !slices.Contains(toolNames(r.Handshake()), "added") {
				t.Errorf("tools after the change: %v", toolNames(r.Handshake()))
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func sdkCalls(t *testing.T, r *trial) {
	raw, err := r.callTool()
	if got := protocol.ToolResult(raw).Text(); err != nil || got != `{"n":12345678901234567890}` {
		t.Errorf("echo: %s, %v", raw, err)
	}

	c := &noter{}
	if _, err = r.Call(context.Background(), &Request{
		Method: protocol.MethodToolsCall,
		Client: c,
		Params: json.RawMessage(`{"name":"progress","arguments":{},"_meta":{"progressToken":"mine"}}`),
	}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{`notify notifications/progress {"progressToken":"mine","progress":0.5}`},
		c.heard); diff != "" {
		t.Error(diff)
	}

	_, err = r.request(protocol.MethodToolsCall, `{"name":"fail","arguments":{}}`)
	if fault := wantKind(t, err, protocol.ExtensionError); fault.Code == 0 || len(fault.Data) == 0 {
		t.Errorf("error = %+v, want the server's code and data", fault)
	}

	ctx, cancel := context.WithCancel(context.Background())
	begun := make(bell, 1)
	sleeping := r.goCall(ctx, &Request{
		Method: protocol.MethodToolsCall,
		Client: begun,
		Params: json.RawMessage(`{"name":"sleep","arguments":{},"_meta":{"progressToken":"mine"}}`),
	})
	await(t, begun) // over HTTP a cancellation could overtake the call and have no effect
	cancel()
	wantKind(t, await(t, sleeping).err, protocol.Canceled)
}

// bell is a caller that is notified when its call has started.
type bell chan struct{}

func (b bell) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, errors.New("nobody answers")
}

func (b bell) Notify(context.Context, string, json.RawMessage) error {
	signal(b)
	return nil
}

// TestProbeIsIgnored uses a server that answers no request before initialize.
func TestProbeIsIgnored(t *testing.T) {
	fault(t)
	s := mcpSpec(t, `until server/discover; until initialize; `+
		`answer {"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"n","version":"7"}}; `+
		`until notifications/initialized; until tools/list; answer {"tools":[{"name":"t","inputSchema":{"type":"object"}}]}; echo`, manifest.MCPVersionAuto)
	s.probeTimeout = 20 * time.Millisecond
	if h := start(t, s).Handshake(); h.ProtocolVersion != protocol.MCP20250618 || h.ServerVersion != "7" ||
		len(h.Tools) != 1 {
		t.Errorf("handshake = %+v", h)
	}
}

// TestVersionRefusedAndListed uses a server that refuses the modern version at first and says that it supports it: the
// host asks again, and sends no initialize.
func TestVersionRefusedAndListed(t *testing.T) {
	fault(t)
	s := patientSpec(t, `read; say {"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"not now","data":{`+
		`"supported":["2026-07-28"]}}}; read; say {"jsonrpc":"2.0","id":2,"result":{"supportedVersions":["2026-07-28"],`+
		`"capabilities":{}}}; until tools/list; answer {"tools":[]}; echo`)
	if h := start(t, s).Handshake(); h.ProtocolVersion != protocol.MCP20260728 {
		t.Errorf("handshake = %+v", h)
	}
}

// TestLateProbeAnswerCounts uses a slow server without initialize.
func TestLateProbeAnswerCounts(t *testing.T) {
	fault(t)
	s := mcpSpec(t, `read; read; say {"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"gone"}}; `+
		`answer {"supportedVersions":["2026-07-28"],"capabilities":{}}; until tools/list; answer {"tools":[]}; echo`,
		manifest.MCPVersionAuto)
	s.probeTimeout = 20 * time.Millisecond
	if h := start(t, s).Handshake(); h.ProtocolVersion != protocol.MCP20260728 {
		t.Errorf("handshake = %+v", h)
	}
}

func TestMCPHandshakeFaults(t *testing.T) {
	fault(t)
	const hello = `init {"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}; `
	for name, c := range map[string]struct {
		script string
		kind   protocol.Kind
		says   string
	}{
		"unknown revision": {`init {"protocolVersion":"1999-01-01","capabilities":{}}; hang`, protocol.ProtocolVersion,
			"1999-01-01"},
		"no revision": {`init {}; hang`, protocol.HandshakeInvalid, "expected shape"},
		"refusal": {`read; say {"jsonrpc":"2.0","id":$ID,"error":{"code":1,"message":"no licence"}}; hang`,
			protocol.HandshakeInvalid, "no licence"},
		"tools no list": {hello + `until tools/list; answer {"tools":1}; hang`, protocol.HandshakeInvalid,
			"expected shape"},
		"tools refused": {hello +
			`until tools/list; say {"jsonrpc":"2.0","id":$ID,"error":{"code":1,"message":"broken"}}; hang`,
			protocol.HandshakeInvalid, "broken"},
		"endless pages": {hello + `endless`, protocol.HandshakeInvalid, "does not end"},
		"exit":          {`read; exit 1`, protocol.ChildExited, "exit status 1"},
		"silence":       {`read; hang`, protocol.HandshakeTimeout, "start_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			s := mcpSpec(t, c.script, protocol.MCP20251125)
			s.Options.StartTimeout = patience
			if name == "silence" {
				s.Options.StartTimeout = 50 * time.Millisecond
			}
			wantContains(t, launch(t, s).end(c.kind).Error(), c.says)
		})
	}
}

// TestCursorThatRepeats lists tools of servers whose last page has a cursor again.
func TestCursorThatRepeats(t *testing.T) {
	const tool = `{"name":%q,"inputSchema":{"type":"object"}}`
	page := func(name, cursor string) string {
		return "read; last " + fmt.Sprintf(`{"tools":[`+tool+`],"nextCursor":%q}; `, name, cursor)
	}
	for name, tt := range map[string]struct {
		pages string
		tools []string
	}{
		"the same page":  {page("a", "1") + page("a", "1"), []string{"a"}},
		"the last again": {page("a", "1") + page("b", "2") + page("c", "2"), []string{"a", "b", "c"}},
		"in a circle":    {page("a", "1") + page("b", "2") + page("c", "1"), []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mcpSpec(t, `init {"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}; until notifications/initialized; `+tt.pages+`echo`, protocol.MCP20251125)
			log := logTo(&s)
			r := start(t, s)
			if diff := cmp.Diff(tt.tools, toolNames(r.Handshake())); diff != "" {
				t.Error(diff)
			}
			wantContains(t, log.String(), "repeats a cursor")
			if strings.Contains(log.String(), "offered twice") {
				t.Errorf("the log: %s", log)
			}
		})
	}
}

// TestModernOnly expects no fallback if the manifest pins the revision.
func TestModernOnly(t *testing.T) {
	fault(t)
	launch(t, mcpSpec(t, "mcp 2025-11-25", protocol.MCP20260728)).end(protocol.HandshakeInvalid)
	launch(t, mcpSpec(t, `init {"supportedVersions":["2031-01-01"]}; hang`,
		protocol.MCP20260728)).end(protocol.ProtocolVersion)
}

func TestServerWithoutTools(t *testing.T) {
	fault(t)
	s := mcpSpec(t, `init {"protocolVersion":"2025-11-25","capabilities":{}}; until tools/list; say {"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}; echo`, protocol.MCP20251125)
	if h := start(t, s).Handshake(); len(h.Tools) != 0 {
		t.Errorf("handshake = %+v", h)
	}
}
