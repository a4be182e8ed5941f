package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/celpolicy"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// governed opens a host over one extension with these policies.
func governed(t *testing.T, o exthost.Options, specs ...governance.Spec) (*exthost.Host, *config.Config) {
	t.Helper()
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	cfg := f.Config()
	cfg.Plugins = specs
	return f.OpenWith(cfg, o), cfg
}

func TestPolicyInAProcess(t *testing.T) {
	processtest.Leaks(t)
	h, _ := governed(t, exthost.Options{}, hosttest.GuardSpec(t, "guard", "guard"))
	if err := hosttest.Greet(t, h, "Ada"); err != nil {
		t.Error(err)
	}
	err := hosttest.Greet(t, h, "no")
	if protocol.KindOf(err) != protocol.Rejected || !strings.Contains(err.Error(), "no is no") {
		t.Errorf("denied: %v", err)
	}
	// A policy that dies decides nothing, and its next process continues.
	if err := hosttest.Greet(t, h, "die"); protocol.KindOf(err) != protocol.GovernanceUnavailable {
		t.Errorf("asked of one that dies: %v", err)
	}
	if p := h.Status().Policies[0].Process; p.FailedInRow != 1 || p.LastFailure.Kind != protocol.ChildExited {
		t.Errorf("%d decisions failed in a row: %+v", p.FailedInRow, p.LastFailure)
	}
	if err := hosttest.Greet(t, h, "Ada"); err != nil {
		t.Errorf("after its restart: %v", err)
	}
	p := h.Status().Policies
	if len(p) != 1 || p[0].State != "ready" || p[0].Process == nil || p[0].Process.Restarts != 1 ||
		p[0].Process.LastCrash == nil || p[0].Process.FailedInRow != 0 {
		t.Errorf("status: %+v", p)
	}
	if err := h.Admin().Restart(hosttest.Deadline(t), "policy:guard"); err != nil {
		t.Error(err)
	}
}

// A policy that hangs lets nothing pass, although its process runs. The verdict names it first.
func TestPolicyThatHangs(t *testing.T) {
	processtest.Leaks(t)
	guard := hosttest.GuardSpec(t, "guard", "mute")
	guard.Timeout = 20 * time.Millisecond
	h, _ := governed(t, exthost.Options{}, guard)
	hosttest.Eventually(t, "three decisions too late", func() bool { // none counts that was not asked within 20 ms
		if err := hosttest.Greet(t, h, "Ada"); protocol.KindOf(err) != protocol.GovernanceUnavailable {
			t.Errorf("a call: %v", err)
		}
		return h.Status().Policies[0].Process.FailedInRow == 3
	})
	v := h.Status().Verdict
	if v.Word != status.NoCallPasses || v.Causes[0].ID != "policy:guard" ||
		v.Causes[0].Next != "exthost restart policy:guard" ||
		!strings.Contains(v.Text, "calls of policy guard time out, 3 in a row: no decision within 20ms") {
		t.Errorf("%+v", v)
	}
}

// A caller that waits shorter than the policy may take, or cancels, says nothing about the policy.
func TestPolicyOfImpatientCallers(t *testing.T) {
	processtest.Leaks(t)
	guard := hosttest.GuardSpec(t, "guard", "mute")
	guard.Timeout = time.Minute
	h, _ := governed(t, exthost.Options{}, guard)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := h.Call(ctx, "ext_x_greet", map[string]string{"name": "Ada"}); err == nil {
			t.Error("a call passes")
		}
		cancel()
		ctx, cancelCause := context.WithCancelCause(t.Context())
		time.AfterFunc(20*time.Millisecond, func() { cancelCause(errors.New("the user pressed Stop")) })
		if _, err := h.Call(ctx, "ext_x_greet", map[string]string{"name": "Ada"}); err == nil {
			t.Error("a canceled call passes")
		}
	}
	if v := h.Status().Verdict; v.Word != status.Ready {
		t.Errorf("%+v", v)
	}
}

// A required policy that does not start lets nothing pass; the status says why.
func TestPolicyThatDoesNotStart(t *testing.T) {
	processtest.Leaks(t)
	h, _ := governed(t, exthost.Options{}, hosttest.GuardSpec(t, "guard", "err no licence; exit 3"))
	if err := hosttest.Greet(t, h, "Ada"); protocol.KindOf(err) != protocol.GovernanceUnavailable {
		t.Errorf("a call: %v", err)
	}
	if p := h.Status().Policies[0]; p.State != "failed" || !strings.Contains(p.Reason, "exit status 3") {
		t.Errorf("status: %+v", p)
	}
}

// A server over HTTP that is down when the host starts lets nothing pass, and decides the next
// call once it is up.
func TestRemotePolicyThatComesLater(t *testing.T) {
	processtest.Leaks(t)
	address := "127.0.0.1:" + processtest.FreePorts(t, 1)[0]
	s := governance.Spec{
		Name: "guard",
		MCP:  &governance.MCP{Proto: governance.ProtoStreamableHTTP, URL: "http://" + address},
	}
	s.Normalize()
	h, _ := governed(t, exthost.Options{}, s)
	if err := hosttest.Greet(t, h, "Ada"); protocol.KindOf(err) != protocol.GovernanceUnavailable {
		t.Errorf("a call without the server: %v", err)
	}
	hosttest.Eventually(t, "the status has the time of the next try", func() bool {
		p := h.Status().Policies[0]
		return p.State == "restarting" && p.Process.Instances[0].NextRetry != nil
	})
	servePlugin(t, address)
	if err := hosttest.Greet(t, h, "Ada"); err != nil {
		t.Errorf("the first call once the server is up: %v", err)
	}
	if err := hosttest.Greet(t, h, "no"); protocol.KindOf(err) != protocol.Rejected {
		t.Errorf("a call that the policy denies: %v", err)
	}
}

// servePlugin serves a plugin at address until the test ends. It denies the name "no".
func servePlugin(t *testing.T, address string) {
	t.Helper()
	plugin := mcp.NewServer(&mcp.Implementation{Name: "plugin", Version: "1"}, nil)
	tool := func(name string, answer func(args json.RawMessage) string) {
		plugin.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				text := answer(r.Params.Arguments)
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
			})
	}
	tool("get_plugin_config", func(json.RawMessage) string { return `{"name":"guard","hooks":["tool_pre_invoke"]}` })
	tool("invoke_hook", func(args json.RawMessage) string {
		if strings.Contains(string(args), `"name":"no"`) {
			return `{"result":{"continue_processing":false,"violation":{"reason":"no is no name"}}}`
		}
		return `{"result":{"continue_processing":true}}`
	})
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return plugin }, nil)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler}}
	server.Start()
	t.Cleanup(func() {
		for session := range plugin.Sessions() {
			session.Close()
		}
		server.CloseClientConnections()
		server.Close()
	})
}

// A list shows a caller nothing that it may not call.
func TestPolicyHidesTools(t *testing.T) {
	access := governance.Spec{
		Name:     "access",
		Builtin:  "access",
		Category: governance.Authorization,
		Config:   map[string]any{"rules": []any{map[string]any{"effect": "deny", "tools": []any{"ext_x_die"}}}},
	}
	h, _ := governed(t, exthost.Options{}, access)
	raw, err := h.Do(hosttest.Deadline(t), &protocol.Call{Method: protocol.MethodToolsList})
	if err != nil || strings.Contains(string(raw), "ext_x_die") || !strings.Contains(string(raw), "ext_x_greet") {
		t.Errorf("tools/list: %s, %v", raw, err)
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_die", nil); protocol.KindOf(err) != protocol.Rejected {
		t.Errorf("called anyway: %v", err)
	}
}

// A client is notified of a list that a change of policies alters.
func TestReloadOfHidingPolicies(t *testing.T) {
	processtest.Leaks(t)
	access := func(tool string) governance.Spec {
		return governance.Spec{
			Name:     "access",
			Builtin:  "access",
			Category: governance.Authorization,
			Config:   map[string]any{"rules": []any{map[string]any{"effect": "deny", "tools": []any{tool}}}},
		}
	}
	var next atomic.Pointer[config.Config]
	h, cfg := governed(t, exthost.Options{Reread: func() (*config.Config, error) { return next.Load(), nil }})
	client := hosttest.NewRecorder()
	if err := h.Attach(hosttest.Deadline(t), &protocol.Session{ID: "s", Client: client}); err != nil {
		t.Fatal(err)
	}
	for _, specs := range [][]governance.Spec{{access("ext_x_die")}, {access("ext_x_greet")}, nil} {
		c := *cfg
		c.Plugins = specs
		next.Store(&c)
		if done := reload(t, h); !slices.Equal(done.Policies, []string{"access"}) {
			t.Errorf("changed policies: %q", done.Policies)
		}
		wait(t, client.On, protocol.MethodToolsListChanged)
	}
}

func TestUnknownBuiltinIsAConfigError(t *testing.T) {
	f := hosttest.NewFolder(t)
	cfg := f.Config()
	cfg.Plugins = []governance.Spec{{Name: "p", Builtin: "acess", Category: governance.Authorization}}
	_, err := exthost.Open(hosttest.Deadline(t), cfg, exthost.Options{StateDir: t.TempDir()})
	if protocol.KindOf(err) != protocol.ConfigInvalid {
		t.Errorf("Open: %v", err)
	}
}

// Calls that all policies allow succeed while policies are changed, removed and added. A reload
// that fails for one policy changes nothing.
func TestReloadPolicies(t *testing.T) {
	processtest.Leaks(t)
	reloads := stormtest.Sized(6, 50)
	var mu sync.Mutex
	var next *config.Config
	h, cfg := governed(t, exthost.Options{Reread: func() (*config.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		return next, nil
	}}, hosttest.GuardSpec(t, "guard", "guard"))
	set := func(specs ...governance.Spec) {
		mu.Lock()
		defer mu.Unlock()
		c := *cfg
		c.Plugins = specs
		next = &c
	}
	ctx, stop := context.WithCancel(hosttest.Deadline(t))
	defer stop()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, err := h.Call(hosttest.Deadline(t), "ext_x_greet", json.RawMessage(`{"name":"Ada"}`))
				if err != nil {
					t.Errorf("during a reload: %v", err)
					return
				}
			}
		})
	}
	for i := range reloads {
		other := hosttest.GuardSpec(t, "guard", "guard")
		other.Env["BUILD"] = fmt.Sprint(i)
		second := hosttest.GuardSpec(t, "second", "guard")
		switch i % 3 {
		case 0:
			set(other)
		case 1:
			set(other, second)
		case 2:
			set()
		}
		if _, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil {
			t.Error(err)
		}
	}
	set(hosttest.GuardSpec(t, "guard", "guard"))
	if _, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil {
		t.Error(err)
	}
	set(hosttest.GuardSpec(t, "guard", "err no rules; exit 3"))
	if _, err := h.Admin().Reload(hosttest.Deadline(t)); err == nil ||
		!strings.Contains(err.Error(), "policy guard does not start: ") || !strings.Contains(err.Error(), "no rules") {
		t.Errorf("a reload with a policy that does not start: %v", err)
	}
	if err := hosttest.Greet(t, h, "no"); protocol.KindOf(err) != protocol.Rejected {
		t.Errorf("the policy before does not go on: %v", err)
	}
	stop()
	wg.Wait()
}

// What the status says about denials of a policy ends when the policy is started again, and when it is removed.
func TestDenialsEndWithTheirPolicy(t *testing.T) {
	processtest.Leaks(t)
	var next config.Config
	h, cfg := governed(t, exthost.Options{Reread: func() (*config.Config, error) { return &next, nil }},
		hosttest.GuardSpec(t, "guard", "guard"))
	next = *cfg
	next.Plugins = nil
	deniedUntil(t, h, "restart", func() error { return h.Admin().Restart(hosttest.Deadline(t), "policy:guard") })
	deniedUntil(t, h, "removal", func() error {
		_, err := h.Admin().Reload(hosttest.Deadline(t))
		return err
	})
}

// deniedUntil has policy guard deny three calls, and checks that the status says so until end.
func deniedUntil(t *testing.T, h *exthost.Host, what string, end func() error) {
	t.Helper()
	for range 3 {
		_ = hosttest.Greet(t, h, "no")
	}
	if s := h.Status(); s.Verdict.Word != status.Degraded || len(s.Denials) != 1 || s.Denials[0].Policy != "guard" {
		t.Errorf("before the %s: %+v, %+v", what, s.Verdict, s.Denials)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if s := h.Status(); s.Verdict.Word != status.Ready || len(s.Denials) != 0 {
		t.Errorf("after the %s: %+v, %+v", what, s.Verdict, s.Denials)
	}
}

// An optional policy that is down fails no call, is counted, and is not asked once it is known to
// be down.
func TestOptionalPolicyThatIsDown(t *testing.T) {
	processtest.Leaks(t)
	for what, tt := range map[string]struct{ script, known string }{
		"does not start": {"exit 3", "(failed)"},
		"hangs":          {"mute", "(breaker_open)"},
	} {
		t.Run(what, func(t *testing.T) {
			s := hosttest.GuardSpec(t, "guard", tt.script)
			s.Required, s.Timeout = new(false), 20*time.Millisecond
			h, _ := governed(t, exthost.Options{}, s)
			down := func() bool {
				p := h.Status().Policies[0]
				return p.State == "failed" || len(p.Process.Instances) == 1 && p.Process.Instances[0].Breaker == "open"
			}
			calls := 0
			for ; !down(); calls++ {
				if err := hosttest.Greet(t, h, "Ada"); err != nil || calls > 100 {
					t.Fatalf("call %d: %v", calls, err)
				}
			}
			if calls > 20 { // five failures open it; one may be counted late
				t.Errorf("the breaker opened after %d calls", calls)
			}
			if err := hosttest.Greet(t, h, "Ada"); err != nil {
				t.Error(err)
			}
			steps := h.Admin().Traces(1)[0].Steps
			for _, step := range steps {
				if step.Outcome != governance.PluginError || !strings.HasSuffix(step.Reason, tt.known) {
					t.Errorf("once it is known to be down: %+v", step)
				}
			}
			counted := h.Status().Policies[0].Calls
			if len(steps) != 2 || len(counted) != 2 || counted[0].Errors != int64(calls)+1 || counted[0].Continue != 0 {
				t.Errorf("%d steps, counted %+v after %d calls", len(steps), counted, calls+1)
			}
		})
	}
}

// A reload of a closed host starts nothing.
func TestReloadOfAClosedHost(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	cfg := f.Config()
	cfg.Extensions.Enabled = false
	with := *cfg
	with.Plugins = []governance.Spec{hosttest.GuardSpec(t, "guard", "guard")}
	h := f.OpenWith(cfg, exthost.Options{Reread: func() (*config.Config, error) { return &with, nil }})
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err := h.Admin().Reload(hosttest.Deadline(t)); protocol.KindOf(err) != protocol.ShuttingDown {
		t.Errorf("%+v, %v", c, err)
	}
}

// A denial counts even with invalid members beside it, and an optional policy that has decided is
// not skipped because its answer is malformed.
func TestOptionalPolicyThatHasDecided(t *testing.T) {
	processtest.Leaks(t)
	for answer, kind := range map[string]protocol.Kind{
		`{"decision":"deny","reason":"not you","retry_after":"2s"}`: protocol.Rejected,
		`{"decision":"deny","request":{},"because":1}`:              protocol.Rejected,
		`{"decision":"ask","expiry":"soon"}`:                        protocol.GovernanceUnavailable,
		`{"verdict":"deny"}`:                                        "",
	} {
		s := governance.Spec{
			Name:     "guard",
			Category: governance.Authorization,
			Kind:     governance.KindNative,
			Required: new(false),
			Cmd: []string{"sh", "-c",
				`read -r line; echo '{"jsonrpc":"2.0","id":0,"result":{}}'; while read -r line; do id=${line#*'"id":'}; echo '{"jsonrpc":"2.0","id":'${id%%,*}',"result":` + answer + `}'; done`},
		}
		s.Normalize()
		h, _ := governed(t, exthost.Options{}, s)
		if err := hosttest.Greet(t, h, "Ada"); protocol.KindOf(err) != kind {
			t.Errorf("%s: %v, want %q", answer, err, kind)
		}
	}
}

// A rule with a misspelled name is a warning, because it never applies.
func TestPatternsThatSelectNothing(t *testing.T) {
	processtest.Leaks(t)
	rule := func(key string, globs ...any) map[string]any { return map[string]any{"effect": "deny", key: globs} }
	access := governance.Spec{
		Name:     "access",
		Builtin:  "access",
		Category: governance.Authorization,
		Config: map[string]any{"rules": []any{
			rule("tools", "ext_x_dye", "ext_x_die", "ext_x_*", "ext_off_*", "ext_my_server_delete",
				"ext_my.server_delete"), rule("extensions", "xx", "x", "off"), rule("callers", "tokens", "token"),
		}},
	}
	ask := governance.Spec{
		Name:     "ask",
		Builtin:  "approval",
		Category: governance.Authorization,
		Match:    governance.Match{Tools: []string{"ext_y_*"}},
	}
	expression := governance.Spec{
		Name:     "expression",
		Builtin:  "cel",
		Category: governance.Validation,
		Config: map[string]any{"when": "tool == 'ext_x_greeet' || tool == 'ext_x_greet' && arguments.nme == 'x' || " +
			"arguments.unlike == 'y' || tool == ''"},
	}
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Add("off",
		hosttest.Child("sdk", "[requires]\nbins = [\"no-such-program\"]\n"))
	cfg := f.Config()
	cfg.Plugins = []governance.Spec{access, ask, expression}
	cfg.Destinations = config.Destinations{
		"my.server": {Type: config.DestinationStdio, Command: manifest.Command{"no-such-program"}},
	}
	h := f.OpenWith(cfg, exthost.Options{PolicyKinds: exthost.PolicyKinds{CEL: celpolicy.New}})
	var got []string
	for _, d := range h.Status().Diagnostics {
		if d.Code == "pattern_unmatched" {
			got = append(got, d.String())
		}
	}
	want := []string{
		`policy:access: "ext_x_dye" of config.rules[0].tools matches no tool; did you mean "ext_x_die"? exthost tools list shows the names`,
		`policy:access: "ext_my.server_delete" of config.rules[0].tools matches no tool; exthost tools list shows the names`,
		`policy:access: "xx" of config.rules[1].extensions matches no extension; did you mean "x"? exthost status shows the ids`,
		`policy:access: "tokens" of config.rules[2].callers matches no caller; did you mean "token"? callers are "" (anonymous), "token", "operator", "stdio:…" and those that exthost client list shows`,
		`policy:ask: "ext_y_*" of match.tools matches no tool; exthost tools list shows the names`,
		`policy:expression: "ext_x_greeet" of config.when matches no tool; did you mean "ext_x_greet"? exthost tools list shows the names`,
		`policy:expression: "nme" of config.when matches no argument; did you mean "name"? exthost tools schema shows the arguments of a tool`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p := h.Status().Policies; len(p) != 3 || len(p[0].Diagnostics) != 4 || len(p[1].Diagnostics) != 1 {
		t.Errorf("the policies do not state their own diagnostics: %+v", p)
	}
}

// Exactly the patterns that match no possible caller are warned about. Callers are named clients,
// also later ones, clients on stdio and the operator; with an authorization server or a cluster,
// any name is possible.
func TestPatternsOfCallers(t *testing.T) {
	processtest.Leaks(t)
	spec := governance.Spec{
		Name:     "access",
		Builtin:  "access",
		Category: governance.Authorization,
		Match:    governance.Match{Callers: []string{"bo?", "ghost"}},
		Config: map[string]any{
			"rules": []any{
				map[string]any{
					"effect": "deny",
					"callers": []any{"bot", "b*", "team-*", "token", "oper*", "operator", "stdio:*", "stdio:17-abc",
						"std*", "*", "stdio"},
				},
			},
		},
	}
	unmatched := func(h *exthost.Host) (globs []string) {
		for _, d := range h.Status().Diagnostics {
			if d.Code == "pattern_unmatched" {
				glob, _, _ := strings.Cut(d.Message, " ")
				globs = append(globs, strings.Trim(glob, `"`))
			}
		}
		return globs
	}
	bot := map[string]config.Client{"bot": {}}
	without := []string{"bo?", "ghost", "bot", "b*", "team-*", "stdio"}
	for name, test := range map[string]struct {
		change func(*config.Config)
		want   []string
	}{
		"no clients": {func(*config.Config) {}, without},
		"a named client": {func(c *config.Config) { c.Server.Clients = bot },
			[]string{"ghost", "team-*", "stdio"}},
		"subjects of tokens":   {func(c *config.Config) { c.Server.Auth.OAuth.Issuer = "https://issuer.example" }, nil},
		"callers of a cluster": {func(c *config.Config) { c.Cluster.URLs = []string{"nats://nats.example"} }, nil},
	} {
		f := hosttest.NewFolder(t)
		cfg := f.Config()
		cfg.Plugins = []governance.Spec{spec}
		test.change(cfg)
		h := f.OpenWith(cfg, exthost.Options{})
		if diff := cmp.Diff(test.want, unmatched(h)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if name == "no clients" {
			for _, change := range []struct {
				clients map[string]config.Client
				want    int
			}{{bot, 3}, {nil, len(without)}} {
				h.Clients().Set(change.clients)
				hosttest.Eventually(t, "the clients in force are known",
					func() bool { return len(unmatched(h)) == change.want })
			}
		}
	}
}

// Each client of 2026-07-28 on stdio has its own budget. Unnamed clients over HTTP share one.
func TestLimitsTellStatelessClientsApart(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	cfg := f.Config()
	cfg.Plugins = []governance.Spec{
		{
			Name:     "budget",
			Builtin:  "budget",
			Category: governance.RateLimiting,
			Config:   map[string]any{"calls": 1},
		},
		{
			Name:     "rates",
			Builtin:  "rate_limit",
			Category: governance.RateLimiting,
			Config: map[string]any{
				"limits": []any{map[string]any{"calls": 1, "window": "1h", "per": []any{"session"}}},
			},
		},
		{
			Name:     "loop",
			Builtin:  "loop",
			Category: governance.RateLimiting,
			Config:   map[string]any{"calls": 1},
		},
	}
	h := f.OpenWith(cfg, exthost.Options{})
	a, b := overStdio(t, h, true), overStdio(t, h, true)
	c := overStreamable(t, h, "/mcp", true)
	for n, call := range []struct {
		w       *way
		allowed bool
	}{{a, true}, {a, false}, {b, true}, {b, false}, {c, true}, {c, false}} {
		got := call.w.request(t, n+1, "tools/call", `"name":"ext_x_greet","arguments":{"name":"Ada"}`)
		if strings.Contains(got, "Hello, Ada") != call.allowed {
			t.Errorf("call %d: %s", n, got)
		}
	}
	d := overStreamable(t, h, "/mcp", true)
	if strings.Contains(d.request(t, 1, "tools/call", `"name":"ext_x_greet","arguments":{"name":"Ada"}`), "Hello") {
		t.Error("a second nameless client has a budget of its own")
	}
}
