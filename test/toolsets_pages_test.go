package test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// A client with a toolset gets the pages of a server's list as one, with each item as the server has it. A list that
// has more pages than the host joins is cut, and the log says so.
func TestPagesOfAListBecomeOne(t *testing.T) {
	processtest.Leaks(t)
	for _, c := range []struct {
		resources, pageSize int
		isCut               bool
	}{{9, 2, false}, {70, 1, true}} {
		s := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, &mcp.ServerOptions{PageSize: c.pageSize})
		mcp.AddTool(s, &mcp.Tool{Name: "hidden"},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return nil, nil, nil
			})
		var want []string
		for i := range c.resources {
			uri := fmt.Sprintf("note://%02d/%s", i, strings.Repeat("x", 50-i%3*10)) // later ones may be shorter
			s.AddResource(&mcp.Resource{URI: uri, Name: "a"}, nil)
			want = append(want, uri)
		}
		server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
		t.Cleanup(server.Close)
		var log lockedBuffer
		f := hosttest.NewFolder(t)
		f.Add("notes", fmt.Sprintf("[transport]\nkind = \"http\"\nurl = %q\n", server.URL))
		cfg := f.Config()
		cfg.Toolsets = map[string]config.Toolset{"some": {Exclude: []string{"ext_notes_hidden"}}}
		h := f.OpenWith(cfg, exthost.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		answer, err := h.Do(hosttest.Deadline(t), &protocol.Call{
			Session: &protocol.Session{
				ID:           "1",
				Version:      protocol.MCP20251125,
				Toolset:      "some",
				Capabilities: json.RawMessage(`{}`),
			},
			Extension: "notes",
			Method:    protocol.MethodResourcesList,
		})
		var list struct{ Resources []struct{ URI string } }
		if err != nil || json.Unmarshal(answer, &list) != nil {
			t.Fatalf("%v, %s", err, answer)
		}
		var got []string
		for _, r := range list.Resources {
			got = append(got, r.URI)
		}
		if c.isCut {
			want = want[:len(got)]
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) < 9 {
			t.Errorf("%d resources: %s", c.resources, diff)
		}
		const words = "the extension lists more than clients with a toolset are shown"
		if strings.Contains(log.String(), words) != c.isCut {
			t.Errorf("%d resources: the log is\n%s", c.resources, &log)
		}
	}
}
