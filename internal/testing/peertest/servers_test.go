package peertest

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// server is an MCP server of another project.
type server struct {
	id    string
	argv  []string
	env   []string
	apart []string // environment of a second instance, which must not share its state
	tools int      // number of tools for a client without capabilities
	calls []call   // with the server's own tool names
}

// fastMCP returns the server of testdata, run by the peers' Python.
func fastMCP(t *testing.T, p peers) server {
	t.Helper()
	script, err := filepath.Abs("testdata/fastmcp_server.py")
	if err != nil {
		t.Fatal(err)
	}
	return server{
		id:    "fast",
		argv:  []string{filepath.Join(string(p), "venv", "bin", "python3"), script},
		tools: 6,
		calls: []call{
			{"greet", args{"name": "日本"}},
			{"person", args{"name": "Ünal"}},
		},
	}
}

func everything(p peers) server {
	return server{
		id:    "everything",
		argv:  []string{p.bin("mcp-server-everything"), "stdio"},
		tools: 17,
		calls: []call{
			{"echo", args{"message": "Grüße, 日本 🎈"}},
			{"get-sum", args{"a": 40, "b": 2}},
			{"get-structured-content", args{"location": "Chicago"}},
			{"get-tiny-image", args{}},
			{"get-annotated-message", args{"messageType": "error", "includeImage": true}},
			{"get-resource-links", args{"count": 2}},
			{"trigger-long-running-operation", args{"duration": 0.01, "steps": 2}},
			{"simulate-research-query", args{"topic": "hosts"}},
		},
	}
}

// servers returns all servers. They may write below dir.
func servers(t *testing.T, p peers, dir string) []server {
	t.Helper()
	hello := filepath.Join(dir, "grüße.txt")
	if err := os.WriteFile(hello, []byte("Grüße, 日本\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return []server{
		everything(p),
		fastMCP(t, p),
		{
			id: "files", argv: []string{p.bin("mcp-server-filesystem"), dir}, tools: 14,
			calls: []call{
				{"list_allowed_directories", args{}},
				{"list_directory", args{"path": dir}},
				{"read_text_file", args{"path": hello}},
				{"write_file", args{"path": filepath.Join(dir, "new.txt"), "content": "12345678901234567890"}},
				{"read_text_file", args{"path": "/etc/passwd"}},
			},
		},
		{
			id: "graph", argv: []string{p.bin("mcp-server-memory")}, tools: 9,
			env:   []string{"MEMORY_FILE_PATH=" + filepath.Join(dir, "hosted.jsonl")},
			apart: []string{"MEMORY_FILE_PATH=" + filepath.Join(dir, "direct.jsonl")},
			calls: []call{
				{"read_graph", args{}},
				{"create_entities",
					args{"entities": []any{args{"name": "Ünal", "entityType": "person", "observations": []any{"日本"}}}}},
				{"search_nodes", args{"query": "Ünal"}},
				{"delete_entities", args{"entityNames": []any{"Ünal"}}},
			},
		},
	}
}

// TestServers runs every server unmodified as an extension and compares the host's answers
// with those of the server itself.
func TestServers(t *testing.T) {
	extensions := folder(t.TempDir())
	h := newHost(t, string(extensions))
	all := servers(t, h.peers, t.TempDir())
	for _, s := range all {
		extensions.add(t, s.id, "protocol = \"mcp\"\n"+launch(s.argv, s.env...))
	}
	url := h.listen(t)
	for _, p := range []endpoint{
		{Transport: "http", Versions: "legacy"},
		{Transport: "http", Versions: "modern"},
		{Transport: "stdio", Versions: "legacy"},
	} {
		hosted := newListener()
		hosted.ClientSession = connectGo(t, h, h.at(p, url), hosted.options())
		for _, s := range all {
			t.Run(p.Transport+"/"+p.Versions+"/"+s.id, func(t *testing.T) { compare(t, h, s, hosted) })
		}
	}
}

// compare lists and calls the tools of one server directly and through the host.
func compare(t *testing.T, h *host, s server, hosted *listener) {
	modern := hosted.InitializeResult().ProtocolVersion == modernVersion
	direct := newListener()
	direct.ClientSession = connectServer(t, h, s, direct.options())
	want := make(map[string]*mcp.Tool)
	for name, tool := range direct.await(t, s.tools, "") {
		tool.Name, tool.Description = registered(s.id, name), "[ext:"+s.id+"] "+tool.Description
		want[tool.Name] = tool
	}
	got := hosted.await(t, len(want), "ext_"+s.id+"_")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tools (-direct +hosted):\n%s", diff)
	}
	ctx := deadline(t)
	for _, c := range s.calls {
		one, err := direct.CallTool(ctx, &mcp.CallToolParams{Name: c.Name, Arguments: c.Arguments})
		if err != nil {
			t.Fatalf("%s called directly: %v", c.Name, err)
		}
		other, err := hosted.CallTool(ctx, &mcp.CallToolParams{Name: registered(s.id, c.Name), Arguments: c.Arguments})
		if err != nil {
			t.Errorf("%s called through the host: %v", c.Name, err)
			continue
		}
		got := json.RawMessage(encode(other))
		if added := rawjson.Get(got, "resultType") != nil; added != modern {
			t.Errorf("%s: it is %t that the result has a type", c.Name, added)
		}
		got = rawjson.Delete(got, "resultType") // these servers do not send it
		if diff := cmp.Diff(encode(one), string(got)); diff != "" {
			t.Errorf("%s %v (-direct +hosted):\n%s", c.Name, c.Arguments, diff)
		}
	}
	about := direct.InitializeResult().ServerInfo
	t.Logf("%s %s: %d tools, %d calls", about.Name, about.Version, len(want), len(s.calls))
}

// registered returns the host's name of a tool whose own name needs no replacement.
func registered(id, tool string) string { return "ext_" + id + "_" + tool }

// connectServer connects a client to s directly.
func connectServer(t *testing.T, h *host, s server, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = h.home, slices.Concat(h.peers.environ(h.home), s.env, s.apart), h.stderr
	session, err := mcp.NewClient(&mcp.Implementation{Name: "direct", Version: "1"}, o).Connect(deadline(t),
		&mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// listener is a session that receives list_changed notifications.
type listener struct {
	*mcp.ClientSession
	tools chan struct{}
}

func newListener() *listener { return &listener{tools: make(chan struct{}, 64)} }

// options returns the options of a client with every capability that the host relays.
func (l *listener) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			//lint:ignore SA1019 servers use what is deprecated
			RootsV2: &mcp.RootCapabilities{},
			//lint:ignore SA1019 servers use what is deprecated
			Sampling: &mcp.SamplingCapabilities{},
			Elicitation: &mcp.ElicitationCapabilities{
				Form: &mcp.FormElicitationCapabilities{},
				URL:  &mcp.URLElicitationCapabilities{},
			},
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { l.tools <- struct{}{} },
	}
}

// await lists the tools whose names begin with prefix, again after each change, until there
// are n.
func (l *listener) await(t *testing.T, n int, prefix string) map[string]*mcp.Tool {
	t.Helper()
	ctx := deadline(t)
	for {
		found := make(map[string]*mcp.Tool)
		for tool, err := range l.Tools(ctx, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(tool.Name, prefix) {
				found[tool.Name] = tool
			}
		}
		if len(found) >= n {
			return found
		}
		select {
		case <-l.tools:
		case <-ctx.Done():
			t.Fatalf("of %d tools there are %q", n, slices.Sorted(maps.Keys(found)))
		}
	}
}
