package cluster_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	settings "github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// An extension of this host whose id, or whose tool's name, is also that of another node's stays what it
// is: no call of it goes to the other node, not even when this host refuses it.
func TestCollidingNames(t *testing.T) {
	urls := sharedServers(t)
	server := "[mcp_servers.x]\ncommand = \"EXE\"\nenv = { EXTHOST_TEST_SCRIPT = \"asking\" }\n"
	front := node{Name: "front", As: settings.ShareNone, URLs: urls, Plugins: []plugin{{ID: "gpu1", Manifest: server}, {ID: "gpu2_x"}}}.open(t)
	own := callAs(t, front, nil, "ext_gpu2_x_pid", "{}")
	node{Name: "gpu1", As: peers.AsMine, URLs: urls, Plugins: []plugin{{Script: "asking", Protocol: "mcp"}, {ID: "y"}}}.start(t)
	node{Name: "gpu2", As: peers.AsMine, URLs: urls, Plugins: []plugin{{}, {ID: "y"}}}.start(t)
	awaitTool(t, front, "ext_gpu1_y_pid", true)
	awaitTool(t, front, "ext_gpu2_y_pid", true)
	for _, x := range front.Status().Extensions {
		if x.ID == "gpu1.x" && (len(x.Nodes) > 0 || x.Transport == status.TransportCluster) {
			t.Errorf("%+v", x)
		}
	}
	if again := callAs(t, front, nil, "ext_gpu2_x_pid", "{}"); again != own {
		t.Errorf("another process: %s and %s", own, again)
	}
	if calls, _ := out(front, "gpu2"); calls > 0 {
		t.Error("the call went to the other node")
	}
	eventually(t, "it is said that a name is taken", func() bool {
		return slices.ContainsFunc(front.Status().Diagnostics, func(d protocol.Diagnostic) bool {
			return strings.Contains(d.Message, "ext_gpu2_x_pid")
		})
	})
}

// Text that no reader sees, in what another node offers, is held back as that of an own extension is.
func TestHiddenTextOfAnotherNode(t *testing.T) {
	urls := sharedServers(t)
	front := open(t, join(t, urls, "front", peers.AsMine), false)
	s := newStranger(t, urls[0], "older")
	s.share(`{"id":"y","protocol":"mcp","instructions":"Be kind.`+"\u200b\U000E0041"+`"}`,
		`{"name":"plain","description":"Says hello.","inputSchema":{"type":"object"}}`,
		`{"name":"zero","description":"Says`+"\U000E0041\U000E0042\U000E0043"+` hello.","inputSchema":{"type":"object"}}`,
		`{"name":"ansi","description":"Says \u001b[31mhello.","inputSchema":{"type":"object"}}`)
	awaitTool(t, front, "ext_older_y_plain", true)
	if _, ok := front.Tools().Lookup("ext_older_y_zero"); ok {
		t.Error("a tool with tag characters is listed")
	}
	if len(front.Admin().Pins()) == 0 {
		t.Error("nothing waits for the operator")
	}
}

// Offers of absurd sizes cost the node that makes them its place, and nobody else anything.
func TestAbsurdOffers(t *testing.T) {
	urls := sharedServers(t)
	front := open(t, join(t, urls, "front", peers.AsMine), false)
	note := func(name, want string) {
		t.Helper()
		eventually(t, name, func() bool {
			nodes := front.Status().Cluster.Nodes
			i := slices.IndexFunc(nodes, func(n status.Node) bool { return n.Name == name })
			return i >= 0 && strings.Contains(nodes[i].Note, want)
		})
	}
	tool := func(name string, description int) string {
		return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, bytes.Repeat([]byte("d"), description))
	}
	head := `{"id":"y","protocol":"native"}`
	many := make([]string, 10_000)
	for i := range many {
		many[i] = tool(fmt.Sprint("t", i), 10)
	}
	newStranger(t, urls[0], "many").share(head, many...)
	note("many", "max_tools")
	long := make([]string, 9)
	for i := range long {
		long[i] = tool(fmt.Sprint("t", i), 1<<20)
	}
	newStranger(t, urls[1], "long").share(head, long...)
	note("long", "too long")
	newStranger(t, urls[2], "names").share(head, tool(strings.Repeat("n", 4<<10), 10), tool("ok", 10), tool("not a name\n", 10))
	awaitTool(t, front, "ext_names_y_ok", true)
	for _, e := range front.Tools().Entries() {
		if len(e.Name) > 128 {
			t.Errorf("a name of %d bytes is listed", len(e.Name))
		}
	}
	newStranger(t, urls[0], "fits").share(head, fmt.Sprintf(`{"name":"one","inputSchema":{"type":"object"},"future":%q}`, bytes.Repeat([]byte("f"), 1<<20-1<<10)))
	awaitTool(t, front, "ext_fits_y_one", true)
	if r, err := front.Call(within(t), "ext_fits_y_one", json.RawMessage(`{}`)); err != nil || r.Text() != "hello" {
		t.Errorf("%s, %v", r, err)
	}
}

// What a client says of itself is as long as it likes; a call at another node does not depend on it.
func TestTalkativeClient(t *testing.T) {
	urls := sharedServers(t)
	startNode(t, urls, "gpu1", peers.AsMine)
	front := open(t, join(t, urls, "front", peers.AsMine), false)
	awaitTool(t, front, "ext_gpu1_x_echo", true)
	s := &protocol.Session{ID: "s1", Caller: "ada", ClientInfo: fmt.Appendf(nil, `{"name":%q,"version":"1"}`, bytes.Repeat([]byte("n"), 20<<10)),
		Capabilities: fmt.Appendf(nil, `{"sampling":{},"experimental":{"x":%q}}`, bytes.Repeat([]byte("x"), 20<<10))}
	if got := callAs(t, front, s, "ext_gpu1_x_renote", fmt.Sprintf(`{"file":%q,"text":"a"}`, filepath.Join(t.TempDir(), "notes"))); got != "noted a" {
		t.Errorf("%q", got)
	}
}
