package peertest

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// app is an example server of the specification of MCP Apps.
type app struct {
	program, id, page string
	tool              string // that its page calls, by its own name
	fixed             bool   // the tool has the same result each time
}

var apps = []app{
	{"mcp-server-basic-react", "clock", "ui://get-time/mcp-app.html", "get-time", false},
	{"mcp-system-monitor-server", "monitor", "ui://system-monitor/mcp-app.html", "poll-system-stats", false},
	{"mcp-budget-allocator-server", "budget", "ui://budget-allocator/mcp-app.html", "get-budget-data", true},
	{"mcp-customer-segmentation-server", "customers", "ui://customer-segmentation/mcp-app.html", "get-customer-data",
		false},
}

// TestApps has clients of all extensions show the pages of the example servers and forward what the pages call. A page
// that states itself reaches its own server alone.
func TestApps(t *testing.T) {
	extensions := folder(t.TempDir())
	h := newHost(t, string(extensions))
	for _, a := range apps {
		if _, err := os.Stat(h.peers.bin(a.program)); err != nil {
			t.Skipf("%s is not installed: run .ci/peers %s", a.program, h.peers)
		}
		extensions.add(t, a.id, "protocol = \"mcp\"\n"+launch([]string{h.peers.bin(a.program), "--stdio"}))
	}
	url := h.listen(t)
	for _, p := range []endpoint{
		{Transport: "http", Versions: "legacy"},
		{Transport: "http", Versions: "modern"},
		{Transport: "stdio", Versions: "legacy"},
	} {
		t.Run(p.Transport+"/"+p.Versions, func(t *testing.T) {
			hosted := newListener()
			hosted.ClientSession = connectGo(t, h, h.at(p, url), hosted.options())
			for _, a := range apps {
				hosted.await(t, 1, "ext_"+a.id+"_")
				read, err := hosted.ReadResource(deadline(t), &mcp.ReadResourceParams{URI: a.page})
				if err != nil || len(read.Contents) != 1 || read.Contents[0].MIMEType != "text/html;profile=mcp-app" ||
					!strings.Contains(read.Contents[0].Text, "<html") {
					t.Fatalf("%s: %v", a.page, err)
				}
			}
			for _, a := range apps {
				a.check(t, h, hosted)
			}
		})
	}
}

// check forwards a call of the page of a, with and without the page stated, and one of a tool of another server.
func (a app) check(t *testing.T, h *host, hosted *listener) {
	t.Helper()
	page := mcp.Meta{"ui": map[string]any{"resourceUri": a.page}}
	for _, meta := range []mcp.Meta{nil, page} {
		got, err := hosted.CallTool(deadline(t), &mcp.CallToolParams{Name: a.tool, Meta: meta, Arguments: args{}})
		if err != nil || got.IsError || len(got.Content) == 0 {
			t.Errorf("%s, page stated %v: %+v, %v", a.tool, meta != nil, got, err)
			continue
		}
		if !a.fixed {
			continue
		}
		direct := connectServer(t, h, server{argv: []string{h.peers.bin(a.program), "--stdio"}}, nil)
		want, err := direct.CallTool(deadline(t), &mcp.CallToolParams{Name: a.tool, Arguments: args{}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.StructuredContent, got.StructuredContent); diff != "" ||
			want.StructuredContent == nil {
			t.Errorf("%s (-direct +hosted): %s", a.tool, diff)
		}
	}
	for _, other := range apps {
		if other.id == a.id {
			continue
		}
		for _, name := range []string{other.tool, registered(other.id, other.tool)} {
			got, err := hosted.CallTool(deadline(t), &mcp.CallToolParams{Name: name, Meta: page, Arguments: args{}})
			if err == nil {
				t.Errorf("the page of %s calls %s: %+v", a.id, name, got)
			}
		}
	}
}
