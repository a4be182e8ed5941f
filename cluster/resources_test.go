package cluster_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// touched is an MCP server that announces a change of its resource with each call.
const touched = `[transport]
command = "/bin/sh"
protocol = "mcp"
mcp_version = "2025-11-25"
args = ["-c", '''
while read -r line; do
	id=$${line#*'"id":'}
	case $line in
	*'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}},"serverInfo":{"name":"touched","version":"1"}}' ;;
	*'"tools/list"'*) result='{"tools":[{"name":"touch","inputSchema":{"type":"object"}}]}' ;;
	*'"tools/call"'*)
		result='{"content":[]}'
		echo '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://note"}}' ;;
	*'"resources/'*) result='{}' ;;
	*) continue ;;
	esac
	echo '{"jsonrpc":"2.0","id":'"$${id%%[,\}]*}"',"result":'"$result"'}'
done''']
`

// hearing is a client that receives updates of resources.
type hearing chan struct{}

func (h hearing) Notify(_ context.Context, method string, _ json.RawMessage) error {
	if method == protocol.MethodResourceUpdated {
		h <- struct{}{}
	}
	return nil
}

func (hearing) Call(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
	return nil, protocol.Errorf(protocol.ToolNotFound, "nobody answers %s", method)
}

// A session is told of a resource at another node while it follows it, whatever other sessions of its host follow.
func TestResourceOfAnotherNode(t *testing.T) {
	processtest.Leaks(t)
	urls := startServers(t, 1).urls()
	h, err := openHost(join(t, urls, "gpu1", peers.AsMine), t.TempDir(), exe(t), []plugin{{Manifest: touched}})
	closed(t, h, err)
	front := open(t, join(t, urls, "web", peers.AsMine), false)
	awaitTool(t, front, "ext_gpu1_x_touch", true)
	sessions, clients := make(map[string]*protocol.Session), make(map[string]hearing)
	ask := func(id, method string) {
		t.Helper()
		c := &protocol.Call{
			Session:   sessions[id],
			Extension: "gpu1.x",
			Method:    method,
			Params:    json.RawMessage(`{"uri":"test://note"}`),
		}
		if _, err := front.Do(within(t), c); err != nil {
			t.Fatal(err)
		}
	}
	touch := func() {
		t.Helper()
		if _, err := front.Call(within(t), "ext_gpu1_x_touch", nil); err != nil {
			t.Fatal(err)
		}
	}
	hears := func(id string) {
		t.Helper()
		select {
		case <-clients[id]:
		case <-within(t).Done():
			t.Fatalf("%s was not told", id)
		}
	}
	for _, id := range []string{"ada", "bob"} {
		clients[id] = make(hearing, 10)
		sessions[id] = &protocol.Session{
			ID:        id,
			Extension: "gpu1.x",
			Version:   protocol.MCP20251125,
			Client:    clients[id],
		}
		if err := front.Attach(t.Context(), sessions[id]); err != nil {
			t.Fatal(err)
		}
		ask(id, protocol.MethodResourcesSubscribe)
	}
	touch()
	hears("ada")
	hears("bob")
	ask("ada", protocol.MethodResourcesUnsubscribe)
	for range 3 {
		touch()
		hears("bob")
	}
	if n := len(clients["ada"]); n > 0 {
		t.Errorf("ada, who has left, was told %d times", n)
	}
}
