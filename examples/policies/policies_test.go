package policies_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/governancetest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// TestMatrix tests the kinds native and mcp against the rules of the pipeline, with real processes.
func TestMatrix(t *testing.T) {
	for kind, script := range map[governance.Kind]string{
		governance.KindNative: "native",
		governance.KindMCP:    "mcp scripted",
	} {
		t.Run(string(kind), func(t *testing.T) {
			processtest.Leaks(t)
			governancetest.Matrix(t, func(t *testing.T, s governance.Spec) governance.Policy {
				s.Kind = kind
				return start(t, scripted(t, s, script))
			})
		})
	}
}

// step is an exchange put to a template and its answer.
type step struct {
	flow   governance.Flow
	caller string
	tool   string
	body   string // the arguments, or the result
	want   governance.Decision
}

func (s step) ask(t *testing.T, p governance.Policy) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	x := &governance.Exchange{
		ID:        "d1",
		Method:    "tools/call",
		Caller:    s.caller,
		Extension: "x",
		Tool:      s.tool,
		ToChild:   true,
		Request:   json.RawMessage(`{"name":"t","arguments":` + s.body + `}`),
	}
	if s.flow == governance.Response {
		x.Request, x.Response = json.RawMessage(`{"name":"t","arguments":{}}`), json.RawMessage(s.body)
	}
	got, err := p.Decide(ctx, s.flow, x)
	if err != nil {
		t.Fatalf("%s %s %s: %v", s.flow, s.tool, s.body, err)
	}
	got.Data = nil
	if diff := cmp.Diff(s.want, got); diff != "" {
		t.Errorf("%s %s %s (-want +got):\n%s", s.flow, s.tool, s.body, diff)
	}
}

func deny(code, reason string) governance.Decision {
	return governance.Decision{Action: governance.Deny, Code: code, Reason: reason}
}

func modify(object string) governance.Decision {
	return governance.Decision{Action: governance.Modify, JSON: json.RawMessage(object)}
}

var allow = governance.Decision{}

const request, response = governance.Request, governance.Response

// TestGRPCGo runs the program as a policy of each category.
func TestGRPCGo(t *testing.T) {
	processtest.Leaks(t)
	program := build(t, "grpc-go")
	journal := filepath.Join(t.TempDir(), "audit.jsonl")
	for category, tt := range map[governance.Category]struct {
		config map[string]any
		steps  []step
	}{
		governance.Observability: {nil, []step{{request, "", "t", `{}`, allow}, {response, "", "t", `{}`, allow}}},
		governance.Authentication: {map[string]any{"callers": []string{"ann"}}, []step{
			{request, "ann", "t", `{}`, allow},
			{request, "", "t", `{}`, deny("", `"" is nobody we know; ask the operator for access`)},
			{request, "bob", "t", `{}`, deny("", `"bob" is nobody we know; ask the operator for access`)}}},
		governance.Authorization: {map[string]any{"deny": []string{"ext_shell_*"}}, []step{
			{request, "", "ext_files_read", `{}`, allow},
			{request, "", "ext_shell_run", `{}`, deny("", "ext_shell_run may not be called here; use another tool")}}},
		governance.Validation: {map[string]any{"max_bytes": 10}, []step{
			{request, "", "t", `{"a":1}`, allow},
			{request, "", "t", `{"a":"1234567890"}`,
				deny("", "the arguments have 18 bytes and may have 10; send less")}}},
		governance.Content: {map[string]any{"redact": []string{"secret"}}, []step{
			{request, "", "t", `{"a":"fine"}`, allow},
			{request, "", "t", `{"a":"a secret","n":12345678901234567890}`,
				modify(`{"name":"t","arguments":{"a":"a ***","n":12345678901234567890}}`)},
			{response, "", "t", `{"content":[{"type":"text","text":"secret"}]}`,
				modify(`{"content":[{"type":"text","text":"***"}]}`)}}},
		governance.Audit: {map[string]any{"file": journal},
			[]step{{request, "ann", "t", `{}`, allow}, {response, "ann", "t", `{}`, allow}}},
	} {
		t.Run(string(category), func(t *testing.T) {
			s := load(t, "grpc-go")
			s.Cmd, s.Category, s.Config = []string{program}, category, tt.config
			p := start(t, s)
			for _, step := range tt.steps {
				step.ask(t, p)
			}
		})
	}
	line, err := os.ReadFile(journal)
	if err != nil || strings.Count(string(line), "\n") != 1 ||
		!strings.Contains(string(line), `"caller":"ann","code":"","decision":"allow","decision_id":"d1"`) {
		t.Errorf("audit: %s, %v", line, err)
	}
	t.Run("rate_limiting", func(t *testing.T) {
		s := load(t, "grpc-go")
		s.Cmd, s.Category, s.Config = []string{program}, governance.RateLimiting, map[string]any{"per_minute": 2}
		limited(t, start(t, s))
	})
	t.Run("as it stands", func(t *testing.T) {
		s := load(t, "grpc-go")
		s.Cmd = []string{program}
		step{request, "", "t", `{"a":"hunter2"}`, modify(`{"name":"t","arguments":{"a":"***"}}`)}.ask(t, start(t, s))
	})
}

// limited asks until p denies, which must happen before the tenth call even if a minute
// begins meanwhile, and checks that other calls are allowed.
func limited(t *testing.T, p governance.Policy) {
	t.Helper()
	x := &governance.Exchange{
		ID:      "d1",
		Method:  "tools/call",
		Caller:  "ann",
		Tool:    "t",
		ToChild: true,
		Request: json.RawMessage(`{"name":"t","arguments":{}}`),
	}
	for n := range 10 {
		d, err := p.Decide(t.Context(), request, x)
		switch {
		case err != nil:
			t.Fatal(err)
		case d.Action == governance.Deny && n == 0:
			t.Fatal("the first call is refused")
		case d.Action == governance.Deny:
			step{request, "bob", "t", `{}`, allow}.ask(t, p)
			step{response, "ann", "t", `{}`, allow}.ask(t, p)
			return
		}
	}
	t.Error("ten calls at once are let through")
}

func TestGRPCPython(t *testing.T) {
	interpreter := python(t, "grpc", "grpc_tools")
	processtest.Leaks(t)
	s := load(t, "grpc-python")
	s.Cmd[0] = interpreter
	limited(t, start(t, s))
}

// The template has its own copy of the proto file, so that it can be copied.
func TestGRPCPythonHasTheContract(t *testing.T) {
	original, err := os.ReadFile("../../governance/grpcpolicy/pluginv1/plugin.proto")
	if err != nil {
		t.Fatal(err)
	}
	copied, err := os.ReadFile("grpc-python/plugin.proto")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(original), string(copied)); diff != "" {
		t.Errorf("copy plugin.proto again (-original +copy):\n%s", diff)
	}
}

// masks are the steps of both MCP templates.
var masks = []step{
	{request, "ann", "t", `{"a":1}`, allow},
	{request, "ann", "t", `{"a":"hunter2"}`, deny("SECRET", "a password: take it out of the arguments")},
	{response, "ann", "t", `{"content":[{"type":"text","text":"write to ann@example.com"}]}`,
		modify(`{"content":[{"type":"text","text":"write to ***@***"}]}`)},
}

func TestMCPGo(t *testing.T) {
	processtest.Leaks(t)
	s := load(t, "mcp-go")
	s.MCP.Cmd = []string{build(t, "mcp-go")}
	p := start(t, s)
	for _, step := range append(masks, step{response, "", "t", `{"content":[],"n":12345678901234567890}`, allow}) {
		step.ask(t, p)
	}
}

func TestMCPPython(t *testing.T) {
	interpreter := python(t, "mcp")
	processtest.Leaks(t)
	s := load(t, "mcp-python")
	s.MCP.Cmd, s.MCP.Script = []string{interpreter, s.MCP.Script}, ""
	p := start(t, s)
	for _, step := range masks {
		p := respaced{p}
		step.ask(t, p)
	}
}

// respaced removes the blanks that Python writes.
type respaced struct{ governance.Policy }

func (r respaced) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	d, err := r.Policy.Decide(ctx, flow, x)
	if d.JSON != nil {
		d.JSON = json.RawMessage(strings.NewReplacer(`": `, `":`, `, "`, `,"`).Replace(string(d.JSON)))
	}
	return d, err
}

func TestNativeGo(t *testing.T) {
	processtest.Leaks(t)
	s := load(t, "native-go")
	s.Cmd = []string{build(t, "native-go")}
	p := start(t, s)
	for _, step := range []step{
		{request, "ann", "ext_files_read", `{"n":12345678901234567890}`, allow},
		{request, "ann", "ext_shell_run", `{"cmd":"ls"}`,
			governance.Decision{Action: governance.Ask, Reason: `May ext_shell_run run with {"cmd":"ls"}?`}},
		{response, "ann", "ext_shell_run", `{"content":[]}`, allow},
		{request, "ann", "t", `{"a":"secret","n":12345678901234567890}`,
			modify(`{"name":"t","arguments":{"a":"***","n":12345678901234567890}}`)},
		{response, "ann", "t", `{"content":[{"type":"text","text":"secret"}]}`,
			modify(`{"content":[{"type":"text","text":"***"}]}`)},
	} {
		step.ask(t, p)
	}
}

func TestNativePython(t *testing.T) {
	python(t)
	processtest.Leaks(t)
	t.Setenv("PYTHONIOENCODING", "ascii") // the policy must read UTF-8 regardless
	p := start(t, load(t, "native-python"))
	for _, step := range []step{
		{request, "ann", "ext_files_read", `{"path":"żółw"}`, allow},
		{request, "ann", "ext_shell_run", `{}`,
			deny("denied_tool", "ext_shell_run may not be called here; use another tool")},
		{response, "ann", "ext_shell_run", `{}`, allow},
	} {
		step.ask(t, p)
	}
}
