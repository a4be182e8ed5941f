package governance_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
)

func TestSpecNormalize(t *testing.T) {
	done := func(s governance.Spec) governance.Spec { // the fields that Normalize always sets
		s.Name, s.Timeout, s.HandshakeTimeout = "p", 3*time.Second, 30*time.Second
		if s.Mode == "" {
			s.Mode = governance.ModeEnforce
		}
		if s.Required == nil {
			s.Required = new(true)
		}
		return s
	}
	mcp := &governance.MCP{Proto: governance.ProtoSSE, URL: "https://example.com"}
	tests := []struct {
		name     string
		in, want governance.Spec
	}{
		{"nothing stated", governance.Spec{}, governance.Spec{Kind: governance.KindBuiltin}},
		{"cmd is grpc", governance.Spec{Cmd: []string{"x"}},
			governance.Spec{Kind: governance.KindGRPC, Cmd: []string{"x"}}},
		{"mcp before cmd", governance.Spec{MCP: mcp, Cmd: []string{"x"}},
			governance.Spec{Kind: governance.KindMCP, Category: governance.Content, MCP: mcp, Cmd: []string{"x"}}},
		{"a stated kind stays", governance.Spec{Kind: governance.KindNative, Cmd: []string{"x"}},
			governance.Spec{Kind: governance.KindNative, Cmd: []string{"x"}}},
		{"external with mcp", governance.Spec{Kind: "external", MCP: mcp, Category: governance.Audit},
			governance.Spec{Kind: governance.KindMCP, MCP: mcp, Category: governance.Audit}},
		{"external without", governance.Spec{Kind: "external"}, governance.Spec{Kind: "external"}},
		{"flows", governance.Spec{
			Flows: []governance.Flow{governance.Response, governance.Request, governance.Response},
		},
			governance.Spec{
				Kind:  governance.KindBuiltin,
				Flows: []governance.Flow{governance.Request, governance.Response},
			}},
		{"permissive", governance.Spec{Mode: "permissive"},
			governance.Spec{Kind: governance.KindBuiltin, Mode: governance.ModeShadow}},
		{"sequential", governance.Spec{Mode: "sequential"}, governance.Spec{Kind: governance.KindBuiltin}},
		{"disabled", governance.Spec{Mode: "disabled"}, governance.Spec{Kind: governance.KindBuiltin, Disabled: true}},
		{"errors ignored by mode", governance.Spec{Mode: "enforce_ignore_error"},
			governance.Spec{Kind: governance.KindBuiltin, Required: new(false)}},
		{"errors ignored", governance.Spec{OnError: "ignore"},
			governance.Spec{Kind: governance.KindBuiltin, Required: new(false)}},
		{"errors fail", governance.Spec{OnError: "fail"}, governance.Spec{Kind: governance.KindBuiltin}},
		{"optional", governance.Spec{Required: new(false)},
			governance.Spec{Kind: governance.KindBuiltin, Required: new(false)}},
		{"one condition", governance.Spec{
			Conditions: []governance.Condition{{Tools: []string{"a"}, ServerIDs: []string{"b"}}},
		},
			governance.Spec{
				Kind:  governance.KindBuiltin,
				Match: governance.Match{Tools: []string{"a"}, Extensions: []string{"b"}},
			}},
		{"an alternative that is everything",
			governance.Spec{Conditions: []governance.Condition{{Agents: []string{"a"}}, {}}},
			governance.Spec{Kind: governance.KindBuiltin}},
		{"a condition beside match",
			governance.Spec{
				Match:      governance.Match{Tools: []string{"a"}},
				Conditions: []governance.Condition{{Tools: []string{"b"}}},
			},
			governance.Spec{
				Kind:       governance.KindBuiltin,
				Match:      governance.Match{Tools: []string{"a"}},
				Conditions: []governance.Condition{{Tools: []string{"b"}}},
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.in
			got.Name = "p"
			got.Normalize()
			want := done(tt.want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			got.Normalize()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("normalizing again changes it (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSpecValidate checks which fields are reported.
func TestSpecValidate(t *testing.T) {
	stdio := func(m governance.MCP) *governance.MCP { m.Proto = governance.ProtoStdio; return &m }
	tests := []struct {
		name string
		spec governance.Spec
		want string
	}{
		{"builtin", governance.Spec{Name: "a", Category: governance.Audit}, ""},
		{"grpc", governance.Spec{
			Name:       "a",
			Category:   governance.Audit,
			Cmd:        []string{"x", ""},
			CommitHash: "x",
			Cwd:        "/",
			Env:        map[string]string{"A": ""},
		}, ""},
		{"native", governance.Spec{
			Name:     "a",
			Category: governance.Audit,
			Kind:     governance.KindNative,
			Cmd:      []string{"x"},
			Config:   map[string]any{"a": 1},
		}, ""},
		{"stdio cmd", governance.Spec{
			Name:  "a",
			MCP:   stdio(governance.MCP{Cmd: []string{"x"}, Cwd: "/", Env: map[string]string{"A": "b"}}),
			Hooks: []string{"tool_pre_invoke"},
		}, ""},
		{"stdio script", governance.Spec{Name: "a", MCP: stdio(governance.MCP{Script: "x.py"})}, ""},
		{"http", governance.Spec{
			Name: "a",
			MCP:  &governance.MCP{Proto: governance.ProtoStreamableHTTP, URL: "http://127.0.0.1:1/mcp"},
		}, ""},
		{"nothing", governance.Spec{}, "name category"},
		{"name with blanks", governance.Spec{Name: " a", Category: governance.Audit}, "name"},
		{"NUL", governance.Spec{Name: "a", Category: governance.Audit, Cmd: []string{"x", "a\x00b"}}, "cmd"},
		{"builtin with a process",
			governance.Spec{
				Name:       "a",
				Category:   governance.Audit,
				Kind:       governance.KindBuiltin,
				Cmd:        []string{"x"},
				Env:        map[string]string{},
				Cwd:        "/",
				CommitHash: "x",
			},
			"commit_hash cmd cwd env"},
		{"grpc with mcp and hooks",
			governance.Spec{
				Name:     "a",
				Category: governance.Audit,
				Kind:     governance.KindGRPC,
				MCP:      &governance.MCP{},
				Hooks:    []string{},
			}, "hooks mcp cmd"},
		{"stdio with everything",
			governance.Spec{
				Name:   "a",
				Config: map[string]any{},
				MCP:    stdio(governance.MCP{Script: "x", Cmd: []string{}, URL: "x", Env: map[string]string{"": ""}}),
			},
			"config mcp.url mcp.script mcp.env"},
		{"stdio with nothing", governance.Spec{Name: "a", MCP: stdio(governance.MCP{})}, "mcp"},
		{"stdio with an empty cmd", governance.Spec{Name: "a", MCP: stdio(governance.MCP{Cmd: []string{}})}, "mcp.cmd"},
		{"http with a process",
			governance.Spec{
				Name: "a",
				MCP: &governance.MCP{
					Proto:  governance.ProtoSSE,
					URL:    "https://" + strings.Repeat("a", 3000),
					Cmd:    []string{},
					Script: "x",
					Cwd:    "/",
				},
			},
			"mcp.cmd mcp.cwd mcp.script mcp.url"},
		{"globs", governance.Spec{
			Name:     "a",
			Category: governance.Audit,
			Match:    governance.Match{Tools: []string{"a*", "[", ""}, Direction: []string{"to_*", "up"}},
		},
			"match.tools match.tools match.direction"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Normalize()
			var got []string
			for _, p := range tt.spec.Validate() {
				got = append(got, p.Field)
				if p.Message == "" {
					t.Errorf("%s: no message", p.Field)
				}
			}
			if fields := strings.Join(got, " "); fields != tt.want {
				t.Errorf("fields = %q, want %q", fields, tt.want)
			}
		})
	}
}
