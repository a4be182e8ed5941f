package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/sdk"
	"github.com/exthost/exthost/status"
)

// hookExtension is a native extension with hooks. They write their events to the file told in its
// state directory, and act as the argument hook says: deny, change and so on.
func hookExtension() *sdk.Extension {
	x := sdk.New("1")
	sdk.AddTool(x, sdk.Tool{Name: "own", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, in json.RawMessage) (string, error) { return string(in), nil })
	for _, point := range []string{
		"PreToolUse",
		"after_tool_call",
		"tool_call_failed",
		"session_start",
		"session_end",
		"extension_state",
		"before_message",
	} {
		x.OnHook(pointOf(point), func(_ context.Context, e sdk.HookEvent) (*sdk.HookReply, error) {
			f, err := os.OpenFile(filepath.Join(os.Getenv("EXTHOST_STATE_DIR"), "told"),
				os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			fmt.Fprintf(f, "%s %s\n", e.Point, e.Params)
			var in struct{ Hook, Say string }
			_ = json.Unmarshal(e.Arguments, &in)
			switch in.Hook + " " + e.Point {
			case "deny before_tool_call":
				return &sdk.HookReply{Decision: "deny", Reason: "not on Mondays"}, nil
			case "change before_tool_call":
				return &sdk.HookReply{Override: json.RawMessage(`{"name":"changed","_meta":{"agent_id":"root"}}`)}, nil
			case "fail before_tool_call":
				return nil, errors.New("disk full")
			case "result after_tool_call":
				return &sdk.HookReply{Override: json.RawMessage(`{"content":[{"type":"text","text":"replaced"}]}`)}, nil
			case "hold after_tool_call":
				return &sdk.HookReply{Decision: "deny", Reason: "too much"}, nil
			case "context before_tool_call", "context after_tool_call", "context tool_call_failed":
				return &sdk.HookReply{Context: "from " + e.Point}, nil
			}
			return nil, nil
		})
	}
	return x
}

func pointOf(name string) string {
	e, _ := manifest.ParseHookEvent(name)
	return string(e)
}

const hookCapabilities = `[capabilities]
tools = ["own"]
hooks = ["before_tool_call", "after_tool_call", "tool_call_failed", "session_start", "session_end", "extension_state"]
`

func hooksManifest() string { return hookCapabilities + hosttest.Plays("hooks", "") }

// told returns the events that the hooks of extension h received.
func told(t *testing.T, state string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(state, "h", "told"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func TestPointsMatchManifests(t *testing.T) {
	var want []hooks.Point
	for _, e := range manifest.HookEvents() {
		want = append(want, hooks.Point(e))
		if got, ok := manifest.ParseHookEvent(hooks.Point(e).CommandName()); !ok || got != e {
			t.Errorf("%s is called %s, which is %s", e, hooks.Point(e).CommandName(), got)
		}
	}
	if diff := cmp.Diff(want, hooks.Points()); diff != "" {
		t.Error(diff)
	}
}

// The effects of an extension's hooks on calls of other extensions' tools.
func TestHooksOfExtensionsDecideAboutCalls(t *testing.T) {
	processtest.Leaks(t)
	state := t.TempDir()
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).AddHooks("h", hooksManifest()).Open(exthost.Options{
		StateDir: state,
	})
	if got := hosttest.StatusOf(t, h, "h").Hooks; len(got) != 6 || slices.Contains(got, "before_message") {
		t.Errorf("hooks %v", got) // before_message is not declared
	}
	session := &protocol.Session{ID: "s1", Caller: "ada"}
	call := func(tool, args string) (protocol.ToolResult, error) {
		result, err := h.Do(hosttest.Deadline(t), &protocol.Call{
			Session: session,
			Method:  protocol.MethodToolsCall,
			Params:  json.RawMessage(`{"name":"` + tool + `","arguments":` + args + `}`),
		})
		return protocol.ToolResult(result), err
	}
	for _, tt := range []struct {
		tool, args string
		want       string // the result
		kind       protocol.Kind
		said       string // in the error
	}{
		{"ext_x_echo", `{"n":12345678901234567890}`, `{"content":[],"structuredContent":{"n":12345678901234567890}}`,
			"", ""},
		{"ext_x_echo", `{"hook":"deny"}`, "", protocol.Rejected, "hook h: not on Mondays"},
		// greet takes no member hook
		{"ext_x_greet", `{"hook":"change","name":"Ada"}`, "", protocol.InvalidArguments, "hook"},
		{"ext_x_echo", `{"hook":"change","name":"Ada"}`,
			`{"content":[],"structuredContent":{"hook":"change","name":"changed"}}`, "", ""},
		// an extension's failure allows
		{"ext_x_echo", `{"hook":"fail"}`, `{"content":[],"structuredContent":{"hook":"fail"}}`, "", ""},
		{"ext_x_echo", `{"hook":"result"}`,
			`{"content":[{"type":"text","text":"replaced"}],"structuredContent":{"hook":"result"}}`, "", ""},
		{"ext_x_echo", `{"hook":"hold"}`, "", protocol.Rejected, "hook h: too much"},
		{"ext_x_echo", `{"hook":"context"}`,
			`{"content":[{"type":"text","text":"from before_tool_call"},{"type":"text","text":"from after_tool_call"}],"structuredContent":{"hook":"context"}}`, "", ""},
		{"ext_h_own", `{"hook":"deny"}`, "", protocol.Rejected, "not on Mondays"}, // its own tools too
		{"ext_x_refuse", `{}`, "", protocol.ExtensionError, "closed"},
	} {
		got, err := call(tt.tool, tt.args)
		if string(got) != tt.want || protocol.KindOf(err) != tt.kind ||
			err != nil && !strings.Contains(err.Error(), tt.said) {
			t.Errorf("%s %s = %s, %v\nwant %s %s", tt.tool, tt.args, got, err, tt.want, tt.said)
		}
		if e, ok := errors.AsType[*protocol.Error](err); ok &&
			strings.Contains(string(e.Data), `"executed":true`) != strings.Contains(tt.args, "hold") {
			t.Errorf("%s: data %s", tt.args, e.Data)
		}
	}
	lines := told(t, state)
	first := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "before_tool_call") })
	if first < 0 || !like(lines[first],
		`before_tool_call {"agent_id":"ada","arguments":{"n":12345678901234567890},"call_id":"call_…","extension_id":"x","session_id":"s1","tool_name":"ext_x_echo"}`) {
		t.Errorf("told %q", lines)
	}
	if !slices.ContainsFunc(lines, func(l string) bool {
		return like(l, `tool_call_failed {"agent_id":"ada","arguments":{},"call_id":"call_…","duration_ms":…,"error":"closed","error_kind":"extension_error","extension_id":"x","session_id":"s1","tool_name":"ext_x_refuse"}`)
	}) {
		t.Errorf("told %q", lines)
	}
}

// like reports whether got matches want, in which … matches anything.
func like(got, want string) bool {
	for i, part := range strings.Split(want, "…") {
		at := strings.Index(got, part)
		if at < 0 || i == 0 && at > 0 {
			return false
		}
		got = got[at+len(part):]
	}
	return got == "" || strings.HasSuffix(want, "…")
}

// entries.ID.hooks selects all events, own ones or none. Without an entry, an extension does not
// see the calls of others.
func TestEntriesSelectHookEvents(t *testing.T) {
	for see, want := range map[string][2]bool{
		config.HooksAll:  {true, true},
		config.HooksOwn:  {false, true},
		config.HooksNone: {false, false},
		"":               {false, true},
	} {
		f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Add("h", hooksManifest())
		cfg := f.Config()
		if see != "" {
			cfg.Extensions.Entries = map[string]config.Entry{"h": {Hooks: see}}
		}
		h := f.OpenWith(cfg, exthost.Options{})
		for i, tool := range []string{"ext_x_echo", "ext_h_own"} {
			_, err := h.Call(hosttest.Deadline(t), tool, json.RawMessage(`{"hook":"deny"}`))
			if denied := protocol.KindOf(err) == protocol.Rejected; denied != want[i] {
				t.Errorf("hooks: %s, %s: %v", see, tool, err)
			}
		}
	}
}

// A call of an extension's hook is governed and fires no hooks. A denied one counts as failed.
func TestHookCallsAreGoverned(t *testing.T) {
	policy := &sentinel{
		deny: func(_ governance.Flow, x *governance.Exchange) bool { return x.Method == "hooks/after_tool_call" },
	}
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).AddHooks("h", hooksManifest()).Open(exthost.Options{
		Policies: []governance.Member{
			{Spec: governance.Spec{Name: "sentinel", Category: governance.Authorization}, Policy: policy},
		},
	})
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_echo", nil); err != nil {
		t.Fatal(err)
	}
	policy.mu.Lock()
	defer policy.mu.Unlock()
	seen := slices.DeleteFunc(policy.seen, func(s string) bool { return strings.Contains(s, "extension_state") })
	want := []string{
		"request > tools/call ext_x_echo",
		"request > hooks/before_tool_call ", "response > hooks/before_tool_call ",
		"response > tools/call ext_x_echo",
		"request > hooks/after_tool_call ",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// openWithHooks opens a host with hooks in its configuration.
func openWithHooks(t *testing.T, f *hosttest.Folder, o exthost.Options, specs ...manifest.HookSpec) *exthost.Host {
	t.Helper()
	cfg := f.Config()
	cfg.Hooks = specs
	return f.OpenWith(cfg, o)
}

func shell(event, line string) manifest.HookSpec {
	return manifest.HookSpec{Event: event, Command: manifest.Command{"sh", "-c", line}}
}

func TestOperatorsExecHooks(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	guard := shell("PreToolUse", `grep -q '"deny"' && { echo no denial >&2; exit 2; }; exit 0`)
	guard.Matcher = "mcp__x__.*"
	context := shell("PostToolUse", `echo '{"hookSpecificOutput":{"additionalContext":"it was '$EXTHOST_TOOL'"}}'`)
	environ := shell("before_tool_call", `echo "$MY_TOKEN $CLAUDE_PROJECT_DIR $MARK" > `+filepath.Join(f.Dir, "env"))
	h := openWithHooks(t, f, exthost.Options{Environ: append(os.Environ(), "MY_TOKEN=secret", "MARK=here")}, guard,
		context, environ)
	result, err := h.Call(hosttest.Deadline(t), "ext_x_greet", map[string]any{"name": "Ada"})
	if want := `{"content":[{"type":"text","text":"Hello, Ada!"},{"type":"text","text":"it was ext_x_greet"}]}`; err !=
		nil || string(result) != want {
		t.Errorf("greet = %s, %v", result, err)
	}
	if err := hosttest.Greet(t, h, "deny"); protocol.KindOf(err) != protocol.Rejected ||
		!strings.Contains(err.Error(), "no denial") {
		t.Errorf("a denied call: %v", err)
	}
	wd, _ := os.Getwd()
	if env, _ := os.ReadFile(filepath.Join(f.Dir, "env")); string(env) != " "+wd+" here\n" {
		t.Errorf("environment %q", env)
	}
	var listed []string
	for _, hook := range h.Admin().Hooks() {
		listed = append(listed,
			fmt.Sprintf("%s %s %q %d %s", hook.Event, hook.Source, hook.Matcher,
				time.Duration(hook.Timeout).Milliseconds(), hook.OnError))
	}
	want := []string{
		`before_tool_call config "mcp__x__.*" 15000 deny`,
		`before_tool_call config "" 15000 deny`,
		`after_tool_call config "" 15000 allow`,
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Error(diff)
	}
}

// A hook whose program is missing is an error when the host opens, not at the first call.
func TestMissingHookIsALoadError(t *testing.T) {
	f := hosttest.NewFolder(t)
	cfg := f.Config()
	cfg.Hooks = []manifest.HookSpec{{Event: "PreToolUse", Command: manifest.Command{"/opt/no/guard"}}}
	_, err := exthost.Open(context.Background(), cfg, exthost.Options{StateDir: t.TempDir()})
	if protocol.KindOf(err) != protocol.ConfigInvalid || !strings.Contains(err.Error(), "hooks[0]") ||
		!strings.Contains(err.Error(), "/opt/no/guard: not found") {
		t.Errorf("Open: %v", err)
	}
	cfg.Hooks = nil
	_, err = exthost.Open(context.Background(), cfg,
		exthost.Options{
			StateDir: t.TempDir(),
			Hooks:    []hooks.Handler{{Name: "mine", Point: hooks.BeforeToolCall, Matcher: "("}},
		})
	if protocol.KindOf(err) != protocol.ConfigInvalid || !strings.Contains(err.Error(), "mine") {
		t.Errorf("Open: %v", err)
	}
	f.Add("guarded", hosttest.Child("sdk", "[[hooks]]\nevent = \"PreToolUse\"\ncommand = \"./gone.sh\"\n"))
	h := f.Open(exthost.Options{})
	if s := hosttest.StatusOf(t, h, "guarded"); s.State != status.StateSkipped ||
		!strings.Contains(s.Reason, "gone.sh: not found") {
		t.Errorf("guarded: %+v", s)
	}
}

// [[hooks]] of a manifest, with and without tools beside them: [capabilities] restricts them, and
// on_error sets the effect of a failure.
func TestManifestsExecHooks(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	f.AddHooks("guards", `[capabilities]
hooks = ["before_tool_call"]
[[hooks]]
event = "PreToolUse"
matcher = "ext_x_greet"
command = ["sh", "-c", "grep -q mallory && exit 2; exit 0"]
[[hooks]]
event = "PreToolUse"
matcher = "ext_x_echo"
command = "./broken.sh"
[[hooks]]
event = "PreToolUse"
matcher = "ext_x_fail"
command = ["sh", "-c", "echo $CLAUDE_PLUGIN_ROOT >&2; exit 1"]
on_error = "deny"
[[hooks]]
event = "PostToolUse"
command = ["sh", "-c", "exit 2"]
`)
	f.Write("guards/broken.sh", "#!/bin/sh\nexit 7\n")
	h := f.Open(exthost.Options{})
	for _, tt := range []struct {
		tool, args, said string
	}{
		{"ext_x_greet", `{"name":"ada"}`, ""},
		{"ext_x_greet", `{"name":"mallory"}`, "exit status 2"},
		{"ext_x_echo", `{}`, ""}, // an extension's failure allows
		{"ext_x_fail", `{}`, "exit status 1: " + filepath.Join(f.Dir, "guards")},
	} {
		result, err := h.Call(hosttest.Deadline(t), tt.tool, json.RawMessage(tt.args))
		if (err == nil) != (tt.said == "") ||
			err != nil && (protocol.KindOf(err) != protocol.Rejected || !strings.Contains(err.Error(), tt.said)) {
			t.Errorf("%s %s = %s, %v, want %q", tt.tool, tt.args, result, err, tt.said)
		}
	}
	s := hosttest.StatusOf(t, h, "guards")
	if diff := cmp.Diff([]string{"before_tool_call"}, s.Hooks); diff != "" || s.State == status.StateSkipped {
		t.Errorf("%s %+v", diff, s)
	}
	if !slices.ContainsFunc(h.Status().Diagnostics, func(d protocol.Diagnostic) bool {
		return d.Extension == "guards" && d.Code == "capability_undeclared" &&
			strings.Contains(d.Message, "after_tool_call")
	}) {
		t.Errorf("the undeclared hook is not told: %v", h.Status().Diagnostics)
	}
}

// extension_load decides about each start, also about restarts.
func TestHooksDecideWhatStarts(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("good", hosttest.Child("sdk", "")).Add("bad", hosttest.Child("sdk", ""))
	gate := shell("extension_load", `grep -q '"version":"0.1.0"' || exit 1; echo not reviewed >&2; exit 2`)
	gate.Matcher = "bad"
	h := openWithHooks(t, f, exthost.Options{}, gate)
	if s := hosttest.StatusOf(t, h, "bad"); s.State != "failed" || !strings.Contains(s.Reason, "not reviewed") {
		t.Errorf("bad: %+v", s)
	}
	if s := hosttest.StatusOf(t, h, "good"); s.State != "ready" {
		t.Errorf("good: %+v", s)
	}
	if err := h.Admin().Restart(hosttest.Deadline(t), "bad"); protocol.KindOf(err) != protocol.Rejected {
		t.Errorf("restarted: %v", err)
	}
}

// Extensions receive extension_state of other extensions, but not of themselves.
func TestHooksReceiveExtensionEvents(t *testing.T) {
	processtest.Leaks(t)
	state := t.TempDir()
	events := make(chan string, 100)
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).AddHooks("h", hooksManifest()).Open(exthost.Options{
		StateDir: state,
		Hooks: []hooks.Handler{{
			Name: "note", Point: hooks.ExtensionState,
			Run: func(_ context.Context, e *hooks.Event) (*hooks.Reply, error) {
				events <- string(e.Payload)
				return nil, nil
			}}},
	})
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_die", nil); err == nil {
		t.Fatal("it lives")
	}
	wanted := []string{`"extension":"x"…"state":"restarting"`, `"extension":"x"…"state":"ready"`}
	for ctx := hosttest.Deadline(t); len(wanted) > 0; {
		select {
		case e := <-events:
			if like(e, "{…"+wanted[0]+"…") {
				wanted = wanted[1:]
			}
		case <-ctx.Done():
			t.Fatalf("never told of %s", wanted)
		}
	}
	hosttest.Eventually(t, "the extension is told", func() bool {
		return slices.ContainsFunc(told(t, state),
			func(l string) bool { return strings.Contains(l, `"extension":"x"`) })
	})
	for _, line := range told(t, state) {
		if strings.HasPrefix(line, "extension_state") && strings.Contains(line, `"extension":"h"`) {
			t.Errorf("told of itself: %s", line)
		}
	}
}

// session_start comes first, session_end before the session's own children end.
func TestHooksReceiveSessionEvents(t *testing.T) {
	processtest.Leaks(t)
	events := make(chan string, 10)
	note := func(p hooks.Point) hooks.Handler {
		return hooks.Handler{
			Name:  "note",
			Point: p,
			Run: func(_ context.Context, e *hooks.Event) (*hooks.Reply, error) {
				events <- string(e.Point) + " " + e.Session + " " + e.Caller
				return nil, nil
			},
		}
	}
	h := hosttest.NewFolder(t).Open(exthost.Options{
		Hooks: []hooks.Handler{note(hooks.SessionStart), note(hooks.SessionEnd)},
	})
	ctx, leave := context.WithCancel(context.Background())
	for _, s := range []*protocol.Session{{ID: "s1", Caller: "ada"}, {Caller: "stateless"}} {
		if err := h.Attach(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	leave()
	for _, want := range []string{"session_start s1 ada", "session_end s1 ada"} {
		select {
		case got := <-events:
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
		case <-hosttest.Deadline(t).Done():
			t.Fatalf("never told: %s", want)
		}
	}
}

// An embedding loop fires its own points.
func TestLoopsFireTheirOwnPoints(t *testing.T) {
	h := openWithHooks(t, hosttest.NewFolder(t), exthost.Options{},
		shell("UserPromptSubmit", `grep -q password && { echo no secrets >&2; exit 2; }; echo it is Monday`),
		shell("ToolsSelect", `echo '{"override":{"tools":["a","evil"]}}'`))
	out, err := h.RunHooks(hosttest.Deadline(t),
		hooks.Event{Point: hooks.BeforeMessage, Payload: json.RawMessage(`{"prompt":"hello"}`)})
	if err != nil || len(out.Context) != 1 || out.Context[0] != "it is Monday" {
		t.Errorf("%+v, %v", out, err)
	}
	_, err = h.RunHooks(hosttest.Deadline(t),
		hooks.Event{Point: hooks.BeforeMessage, Payload: json.RawMessage(`{"prompt":"my password"}`)})
	if protocol.KindOf(err) != protocol.Rejected {
		t.Errorf("%v", err)
	}
	out, err = h.RunHooks(hosttest.Deadline(t),
		hooks.Event{Point: hooks.ToolsSelect, Payload: json.RawMessage(`{"tools":["a","b"]}`)})
	if err != nil || string(out.Payload) != `{"tools":["a"]}` {
		t.Errorf("%s, %v", out.Payload, err)
	}
	if out, err := h.RunHooks(hosttest.Deadline(t), hooks.Event{Point: hooks.SessionStart}); err != nil ||
		string(out.Payload) != `{}` {
		t.Errorf("%s, %v", out.Payload, err)
	}
	for _, e := range []hooks.Event{
		{Point: "PreToolUse"},
		{Point: hooks.SessionEnd, Payload: json.RawMessage(`[]`)},
		{Point: hooks.SessionEnd, Payload: json.RawMessage(` `)},
	} {
		if _, err := h.RunHooks(hosttest.Deadline(t), e); protocol.KindOf(err) != protocol.InvalidArguments {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

// A call waits for an extension with hooks that is still starting, and for none that cannot
// start.
func TestCallsWaitForHooksThatStart(t *testing.T) {
	processtest.Leaks(t)
	gate := filepath.Join(t.TempDir(), "gate")
	if err := exec.Command("mkfifo", gate).Run(); err != nil {
		t.Skip(err)
	}
	for name, tt := range map[string]struct {
		open string
		want protocol.Kind
	}{"starts": {"exec env \"$0\"=hooks \"$1\"", protocol.Rejected}, "does not": {"exit 3", ""}} {
		t.Run(name, func(t *testing.T) {
			f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).AddHooks("h", hookCapabilities+`[transport]
command = "sh"
args = ["-c", 'read -r line < "$2"; `+tt.open+`', "`+processtest.ScriptVar+`", "%EXE%", "`+gate+`"]
`)
			asked := make(chan struct{})
			h := f.Open(exthost.Options{
				Hooks: []hooks.Handler{{Name: "first", Point: hooks.BeforeToolCall, Priority: -1,
					Run: func(context.Context, *hooks.Event) (*hooks.Reply, error) { close(asked); return nil, nil }}},
				Mode: exthost.Mode{Background: true},
			})
			hosttest.Eventually(t, "x is ready",
				func() bool { return slices.Contains(hosttest.Names(h), "ext_x_echo") })
			ended := make(chan error, 1)
			go func() {
				_, err := h.Call(hosttest.Deadline(t), "ext_x_echo", json.RawMessage(`{"hook":"deny"}`))
				ended <- err
			}()
			<-asked // the hooks of this call are settled
			if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; protocol.KindOf(err) != tt.want {
				t.Errorf("the call: %v, want %q", err, tt.want)
			}
		})
	}
}

// Extensions added by a reload pass the extension_load hooks of the new configuration, not those
// that it removes.
func TestReloadedHooksAdmit(t *testing.T) {
	processtest.Leaks(t)
	refuse := func(id string) manifest.HookSpec {
		return shell("extension_load", `grep -q '"id":"`+id+`"' && { echo "not `+id+`" >&2; exit 2; } || exit 0`)
	}
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	cfg := f.Config()
	cfg.Hooks = []manifest.HookSpec{refuse("y")}
	h := f.OpenWith(cfg, exthost.Options{Reread: func() (*config.Config, error) {
		next := *cfg
		next.Hooks = []manifest.HookSpec{refuse("z")}
		return &next, nil
	}})
	f.Add("y", hosttest.Child("sdk", "")).Add("z", hosttest.Child("sdk", ""))
	c := reload(t, h)
	if len(c.Failed) != 1 || c.Failed[0].Extension != "z" || !strings.Contains(c.Failed[0].Message, "not z") {
		t.Errorf("failed: %+v", c.Failed)
	}
	if s := hosttest.StatusOf(t, h, "y"); s.State != "ready" {
		t.Errorf("y is %s: %s", s.State, s.Reason)
	}
}
