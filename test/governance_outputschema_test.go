package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// servePromises is a server that states what its tool returns, and returns what it is told.
func servePromises(string) {
	s := mcp.NewServer(&mcp.Implementation{Name: "promises", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{
		Name:         "report",
		InputSchema:  json.RawMessage(`{"type":"object"}`),
		OutputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
	}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var told struct {
			Structured any
			Fails      bool
		}
		if err := json.Unmarshal(r.Params.Arguments, &told); err != nil {
			return nil, err
		}
		result := textOf("secret-of-the-result")
		result.StructuredContent, result.IsError = told.Structured, told.Fails
		return result, nil
	})
	s.AddTool(&mcp.Tool{Name: "free", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return textOf("anything"), nil
		})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		processtest.Exit(1)
	}
}

// A result that breaks the tool's own output schema is withheld, or passes with a warning, and the status names the
// tool with its count either way. A rehearsal decides by the same schema.
func TestOutputSchemaIsKept(t *testing.T) {
	processtest.Leaks(t)
	for mode, denies := range map[string]bool{"error": true, "warn": false} {
		f := hosttest.NewFolder(t).Add("x", hosttest.Plays("promises", "protocol = \"mcp\"\n"))
		cfg := f.Config()
		policy := governance.Spec{
			Name:     "promises",
			Builtin:  "output_schema",
			Category: governance.Validation,
			Config:   map[string]any{"on_mismatch": mode},
		}
		policy.Normalize()
		cfg.Plugins = []governance.Spec{policy}
		h := f.OpenWith(cfg, exthost.Options{})
		if err := h.Ready(hosttest.Deadline(t)); err != nil {
			t.Fatal(err)
		}
		for _, call := range []struct{ tool, arguments, fault string }{
			{"ext_x_report", `{"structured":{"n":1}}`, ""},
			{"ext_x_report", `{"structured":{"n":"private"}}`, "/n: expected"},
			{"ext_x_report", `{"structured":{"m":1}}`, "n"},
			{"ext_x_report", `{}`, "structuredContent is missing"},
			{"ext_x_report", `{"fails":true}`, ""},
			{"ext_x_free", `{}`, ""},
		} {
			text, err := callAs(t, h, nil, call.tool, call.arguments)
			e, _ := err.(*protocol.Error)
			switch withheld := denies && call.fault != ""; {
			case withheld && (e == nil || e.Kind != protocol.Rejected || !strings.Contains(e.Message, call.fault) ||
				!strings.Contains(string(e.Data), `"code":"output_mismatch"`) || e.Outcome == "" ||
				strings.Contains(e.Message, "private")):
				t.Errorf("%s: %s %s: %s, %#v", mode, call.tool, call.arguments, text, err)
			case !withheld && err != nil:
				t.Errorf("%s: %s %s: %v", mode, call.tool, call.arguments, err)
			}
		}
		if got := warnings(h, "output_mismatch"); len(got) != 1 ||
			!strings.HasPrefix(got[0], "x: 3 of 4 results of ext_x_report broke the tool's output schema, the last "+
				"one: structuredContent is missing") {
			t.Errorf("%s: the status says %q", mode, got)
		}
		strict := policy
		strict.Config = map[string]any{"on_mismatch": "error"}
		rehearsed, err := h.Admin().Rehearse(hosttest.Deadline(t), exthost.RehearseOptions{Entry: &strict})
		if err != nil || !denies && rehearsed.Denied != 3 { // what was withheld is not kept
			t.Errorf("%s: a rehearsal denies %d: %v", mode, rehearsed.Denied, err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}
