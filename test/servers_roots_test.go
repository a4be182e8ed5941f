package test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// asksForRoots requests the roots twice after its start, and logs the answers.
const asksForRoots = `#!/bin/sh
answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/'),$1}"; }
while read -r line; do
	case $line in
	*'"initialize"'*) answer '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}' ;;
	*'"tools/list"'*) answer '"result":{"tools":[]}'
		echo '{"jsonrpc":"2.0","id":"first","method":"roots/list"}' ;;
	*'"id":"first"'*) echo "Failed to request roots: $line" >&2
		echo '{"jsonrpc":"2.0","id":"second","method":"roots/list"}' ;;
	*'"id":"second"'*) echo "Failed to request roots: $line" >&2
		echo "that was all" >&2 ;;
	*'"method":"notifications/'*) ;;
	*) answer '"error":{"code":-32601,"message":"unknown"}' ;;
	esac
done
`

// A refused roots/list outside of a call is logged once per instance at INFO, however often the server repeats it.
func TestRefusedRootsAreLoggedOnce(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", "[transport]\ncommand = \"./x.sh\"\nprotocol = \"mcp\"\n")
	f.Write("x/x.sh", asksForRoots)
	h := f.Open(exthost.Options{})
	var said []string
	for r := range h.Admin().Logs(hosttest.Deadline(t), status.LogFilter{Follow: true}) {
		if r.Message == "that was all" {
			break
		}
		if strings.Contains(r.Message, "roots") {
			said = append(said, fmt.Sprint(r.Level, " ", r.Message, string(r.Attrs)))
		}
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "INFO answered roots/list with an error") ||
		!strings.Contains(said[0], "roots of x, in extensions.entries or destinations") {
		t.Errorf("want one line: %q", said)
	}
}

// Configured roots answer the input requests of a 2026-07-28 server: callers are not asked and need not declare
// roots.
func TestConfiguredRootsAnswerInputRequests(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", rich("newer", ""))
	cfg := f.Config()
	cfg.Extensions.Entries = map[string]config.Entry{"x": {Roots: []string{"/srv/data"}}}
	h := f.OpenWith(cfg, exthost.Options{})

	asker := newClient("asker")
	legacy := &protocol.Session{
		ID:           "l",
		Version:      protocol.MCP20251125,
		Client:       asker,
		Capabilities: json.RawMessage(`{"elicitation":{"form":{}}}`),
	}
	modern := &protocol.Session{
		Version:      protocol.MCP20260728,
		Capabilities: json.RawMessage(`{"elicitation":{"form":{}}}`),
	}
	for name, s := range map[string]*protocol.Session{"legacy": legacy, "modern": modern, "Go": nil} {
		var client protocol.Peer
		if s == legacy {
			client = asker
		}
		if got := callTool(t, h, s, client, "ext_x_input", "{}"); got != "file:///srv/data" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := callTool(t, h, legacy, asker, "ext_x_both", "{}"); got != "file:///srv/data accept" ||
		strings.Contains(fmt.Sprint(asker.Told()), "roots") {
		t.Errorf("legacy: %s, asked %q", got, asker.Told())
	}

	asked := callTool(t, h, modern, nil, "ext_x_both", "{}")
	requests := rawjson.Get(json.RawMessage(asked), "inputRequests")
	if rawjson.Get(requests, "e") == nil || rawjson.Get(requests, "r") != nil {
		t.Fatalf("modern: %s", asked)
	}
	again := func(state json.RawMessage) string {
		params := fmt.Sprintf(`{"name":"ext_x_both","arguments":{},"requestState":%s,"inputResponses":{"e":{"action":"decline"}},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}`, state)
		result, err := h.Do(hosttest.Deadline(t),
			&protocol.Call{Session: modern, Method: protocol.MethodToolsCall, Params: json.RawMessage(params)})
		return fmt.Sprint(string(result), err)
	}
	if got := again(rawjson.Get(json.RawMessage(asked), "requestState")); !strings.Contains(got,
		"file:///srv/data decline") {
		t.Errorf("modern, with its answer: %s", got)
	}
	for _, forged := range []string{`"exthost-roots."`, `"exthost-roots.!!"`, `"exthost-roots.e30"`} {
		if got := again(json.RawMessage(forged)); strings.Contains(got, "decline") {
			t.Errorf("a forged state: %s", got)
		}
	}
}
