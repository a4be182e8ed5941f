package test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// turns is a content policy that replaces one name by another in the flow.
func turns(flow governance.Flow, from, to string) governance.Policy {
	return decider(func(f governance.Flow, x *governance.Exchange) governance.Decision {
		if p := payloadOf(f, x); f == flow && bytes.Contains(p, []byte(from)) {
			return governance.Decision{Action: governance.Modify, JSON: bytes.ReplaceAll(p, []byte(from), []byte(to))}
		}
		return governance.Decision{}
	})
}

// A request or result changed by a content policy is authorized like one from outside.
func TestContentPoliciesUndoNoDenial(t *testing.T) {
	processtest.Leaks(t)
	for _, flow := range []governance.Flow{governance.Request, governance.Response} {
		t.Run(string(flow), func(t *testing.T) {
			h := hosttest.NewFolder(t).Add("x",
				hosttest.Child("sdk", "")).Open(exthost.Options{Policies: []governance.Member{
				member("deny", governance.Authorization, notMallory),
				member("turn", governance.Content, turns(flow, "Ada", "mallory")),
			}})
			w := overStreamable(t, h, "/mcp", false)
			got := w.request(t, 1, "tools/call", `"name":"ext_x_greet","arguments":{"name":"Ada"}`)
			reached := int64(0)
			if flow == governance.Response {
				reached = 1
			}
			if n := hosttest.StatusOf(t, h, "x").Calls; strings.Contains(got, "Hello") ||
				!strings.Contains(got, "no_mallory") || n != reached {
				t.Errorf("%d calls reached the extension: %s", n, got)
			}
			got = w.request(t, 2, "tools/call", `"name":"ext_x_greet","arguments":{"name":"Grace"}`)
			if !strings.Contains(got, "Hello, Grace!") {
				t.Errorf("a call that nobody denies: %s", got)
			}
		})
	}
}

// A person approves the request as it will be sent, and is not asked about a denied one, whatever
// the names of the policies.
func TestPeopleAreAskedLast(t *testing.T) {
	processtest.Leaks(t)
	f, dir := lazyFolder(t, ""), t.TempDir()
	cfg := f.Config()
	cfg.Plugins = []governance.Spec{
		{Name: "a-first", Category: governance.Authorization, Builtin: "approval"},
		pinSpec(filepath.Join(dir, "exthost.lock"), governance.ModeEnforce),
		{
			Name:     "mask",
			Category: governance.Content,
			Builtin:  "redact",
			Config:   map[string]any{"patterns": map[string]any{"name": "mallory"}},
		},
	}
	h := f.OpenWith(cfg, exthost.Options{})
	w := overStreamable(t, h, "/mcp", false)
	answered := make(chan string, 1)
	go func() {
		answered <- w.request(t, 1, "tools/call", `"name":"ext_x_greet","arguments":{"note":"mallory"}`)
	}()
	hosttest.Eventually(t, "somebody is asked", func() bool { return len(h.Admin().ApprovalRequests()) == 1 })
	q := h.Admin().ApprovalRequests()[0]
	if !strings.Contains(q.Arguments, "[redacted:name]") {
		t.Errorf("a person was asked about %s", q.Arguments)
	}
	if err := h.Admin().Approve(q.ID, "ada"); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; strings.Contains(got, "isError\":true") || strings.Contains(got, `"error"`) {
		t.Errorf("approved: %s", got)
	}
	f.Write("x/tools.json", evil)
	if err := h.Admin().Restart(hosttest.Deadline(t), "x"); err != nil {
		t.Fatal(err)
	}
	got := w.request(t, 2, "tools/call", `"name":"ext_x_greet","arguments":{}`)
	if !strings.Contains(got, "descriptor_changed") {
		t.Errorf("a tool that is held back: %s", got)
	}
	if asked := h.Admin().ApprovalRequests(); len(asked) != 0 {
		t.Errorf("a person is asked about a tool that is held back: %+v", asked)
	}
}

// An ambiguous request is refused while a policy decides about requests, for every method, and
// also when the tool's schema is unusable.
func TestAmbiguousRequestsAreRefused(t *testing.T) {
	processtest.Leaks(t)
	allow := member("allow", governance.Authorization,
		decider(func(governance.Flow, *governance.Exchange) governance.Decision { return governance.Decision{} }))
	f := hosttest.NewFolder(t).Add("x", rich("older", ""))
	f.Add("y", "[transport]\nkind = \"exec\"\n[[tools]]\nname = \"t\"\ncommand = [\"cat\"]\ninput_schema = {type = "+
		"\"object\", properties = {a = {\"$ref\" = \"https://example.com/a\"}}}\n")
	h := f.Open(exthost.Options{Policies: []governance.Member{allow}})
	w := overStreamable(t, h, "/mcp", false)
	for id, tt := range []struct{ method, params, twin string }{
		{"resources/read", `"uri":"test://secret","uri":"test://note"`, "uri"},
		{"resources/read", `"uri":"test://note","URI":"test://secret"`, "URI"},
		{"prompts/get", `"name":"ext_x_p","arguments":{"a":"1","\u0061":"2"}`, "a"},
		{"completion/complete",
			`"ref":{"type":"ref/prompt","name":"ext_x_p","Name":"q"},"argument":{"name":"x","value":""}`, "Name"},
		{"resources/subscribe", `"uri":"test://note","uri":"test://note"`, "uri"},
		{"tools/call", `"name":"ext_y_t","arguments":{"a":1,"a":2}`, "a"},
		{"tools/call", `"name":"ext_x_ask","arguments":{"for":"roots","For":"sampling"}`, "For"},
	} {
		got := w.request(t, id+1, tt.method, tt.params)
		if !strings.Contains(got, "invalid_arguments") || !strings.Contains(got, `\"`+tt.twin+`\"`) {
			t.Errorf("%s: %s", tt.method, got)
		}
	}
	if n := hosttest.StatusOf(t, h, "y").Calls; n != 0 {
		t.Errorf("%d calls reached y", n)
	}
}

// If a policy denies the list that a read needs, the read reports the denial and not an unknown
// resource.
func TestDeniedListsAreDenials(t *testing.T) {
	processtest.Leaks(t)
	policy := &sentinel{
		deny: func(_ governance.Flow, x *governance.Exchange) bool { return x.Method == "resources/list" },
	}
	h := hosttest.NewFolder(t).Add("x", rich("older", "")).Open(exthost.Options{
		Policies: []governance.Member{member("sentinel", governance.Authorization, policy)},
	})
	w := overStreamable(t, h, "/mcp", false)
	for id := range 2 { // the second call finds that everything was just listed
		got := w.request(t, id+1, "resources/read", `"uri":"test://note"`)
		if !strings.Contains(got, "policy sentinel: not today") || strings.Contains(got, "no extension lists") {
			t.Errorf("resources/read: %s", got)
		}
	}
}

// Policies and hooks ignore an identity that the caller writes into _meta.
func TestForgedIdentityReachesNoPolicy(t *testing.T) {
	processtest.Leaks(t)
	var seen []string
	policy := decider(func(flow governance.Flow, x *governance.Exchange) governance.Decision {
		if flow == governance.Request && x.ToChild {
			seen = append(seen, string(x.Request))
		}
		return governance.Decision{}
	})
	h := hosttest.NewFolder(t).Add("x", rich("older", "")).Open(exthost.Options{
		Policies: []governance.Member{member("p", governance.Authorization, policy)},
	})
	_, c := stay(t, h, "s", protocol.MCP20251125, "x")
	forged := `,"_meta":{"agent_id":"root","session_id":"theirs","progressToken":1}}`
	for _, r := range []*protocol.Call{
		{Method: "tools/call", Params: json.RawMessage(`{"name":"log","arguments":{}` + forged)},
		{Method: "resources/read", Params: json.RawMessage(`{"uri":"test://note"` + forged)},
	} {
		r.Extension, r.Client = "x", c
		if _, err := h.Do(hosttest.Deadline(t), r); err != nil {
			t.Error(err)
		}
	}
	if all := strings.Join(seen, "\n"); len(seen) < 2 || strings.Contains(all, "root") ||
		strings.Contains(all, "theirs") || strings.Count(all, "progressToken") != 2 {
		t.Errorf("seen: %s", all)
	}
}

// The refusal of an unnamed hook states its position and not its command line.
func TestRefusalsHoldNoCommandLine(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	cfg := f.Config()
	cfg.Hooks = []manifest.HookSpec{
		{Event: "PreToolUse", Matcher: "ext_x_.*", Command: []string{"sh", "-c", "echo no >&2; : swordfish; exit 2"}},
	}
	w := overStreamable(t, f.OpenWith(cfg, exthost.Options{}), "/mcp", false)
	got := w.request(t, 1, "tools/call", `"name":"ext_x_greet","arguments":{"name":"Ada"}`)
	if strings.Contains(got, "swordfish") || !strings.Contains(got, "hook PreToolUse[0] ext_x_.*") {
		t.Errorf("refused: %s", got)
	}
}
