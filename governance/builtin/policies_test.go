package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/protocol"
)

// config decodes the config of a policy as a file states it.
func config(t testing.TB, text string) map[string]any {
	t.Helper()
	var c map[string]any
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

// categories are the categories of the policies in these tests.
var categories = map[string]governance.Category{
	"access": governance.Authorization, "schema": governance.Validation, "output_schema": governance.Validation,
	"rate_limit": governance.RateLimiting, "loop": governance.RateLimiting, "budget": governance.RateLimiting,
}

func spec(t testing.TB, name, text string) governance.Spec {
	return governance.Spec{
		Name:     name,
		Builtin:  name,
		Category: categories[name],
		Config:   config(t, text),
	}
}

func newPolicy(t testing.TB, name, text string) governance.Policy {
	t.Helper()
	p, err := builtin.New(spec(t, name, text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func call(tool, arguments string) governance.Exchange {
	return governance.Exchange{
		Method:    protocol.MethodToolsCall,
		Caller:    "ada",
		Session:   "s1",
		Extension: "files",
		Tool:      tool,
		ToChild:   true,
		Request:   json.RawMessage(`{"name":"x","arguments":` + arguments + `,"_meta":{"progressToken":1}}`),
	}
}

// ask returns the decision of p as a string.
func ask(t testing.TB, p governance.Policy, flow governance.Flow, x governance.Exchange) string {
	t.Helper()
	d, err := p.Decide(context.Background(), flow, &x)
	if err != nil {
		return "error: " + err.Error()
	}
	if d.Action == governance.Allow {
		return "allow"
	}
	text := string(d.Action) + " " + d.Code + ": " + d.Reason
	if d.RetryAfter > 0 {
		text += " (" + d.RetryAfter.String() + ")"
	}
	return text
}

func TestAccess(t *testing.T) {
	p := newPolicy(t, "access", `{"default": "deny", "rules": [
		{"effect": "deny", "methods": ["sampling/*"], "reason": "no models here"},
		{"effect": "deny", "tools": ["ext_files_delete*"], "callers": ["team/*"]},
		{"effect": "allow", "extensions": ["files"]},
		{"effect": "allow", "callers": ["root"]}]}`)
	with := func(x governance.Exchange, change func(*governance.Exchange)) governance.Exchange {
		change(&x)
		return x
	}
	read, remove := call("ext_files_read", `{}`), call("ext_files_delete_all", `{}`)
	tests := []struct {
		name string
		x    governance.Exchange
		want string
	}{
		{"by extension", read, "allow"},
		{"the first rule decides", with(remove, func(x *governance.Exchange) { x.Caller = "team/bob" }),
			`deny unauthorized: caller "team/bob" may not use ext_files_delete_all`},
		{"of another caller", remove, "allow"},
		{"by default", with(read, func(x *governance.Exchange) { x.Tool, x.Extension = "ext_web_get", "web" }),
			`deny unauthorized: caller "ada" may not use ext_web_get`},
		{"everything", with(read,
			func(x *governance.Exchange) { x.Tool, x.Extension, x.Caller = "ext_web_get", "web", "root" }), "allow"},
		{"lists", governance.Exchange{Method: "tools/list", Caller: "ada", ToChild: true}, "allow"},
		{"the host's own tool",
			with(read, func(x *governance.Exchange) { x.Tool, x.Extension = "exthost_result_page", "" }), "allow"},
		{"what is called like a list",
			governance.Exchange{Method: "secrets/list", Caller: "ada", Extension: "web", ToChild: true},
			`deny unauthorized: caller "ada" may not use secrets/list`},
		{"another method", governance.Exchange{
			Method:    "resources/read",
			Caller:    "ada",
			Extension: "web",
			ToChild:   true,
		}, `deny unauthorized: caller "ada" may not use resources/read`},
		{"upwards", governance.Exchange{Method: "elicitation/create", Extension: "web"}, "allow"},
		{"upwards by rule", governance.Exchange{Method: "sampling/createMessage", Extension: "files"},
			"deny unauthorized: no models here"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ask(t, p, governance.Request, tt.x); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if got := ask(t, p, governance.Response, tt.x); got != "allow" {
				t.Errorf("the response: %s", got)
			}
			if tt.x.Tool != "" {
				visible := p.(governance.Visibler).Visible(tt.x.Caller,
					governance.Tool{Extension: tt.x.Extension, Name: tt.x.Tool})
				if visible != (tt.want == "allow") {
					t.Errorf("visible: %t", visible)
				}
			}
		})
	}
	if got := ask(t, newPolicy(t, "access", `{}`), governance.Request, remove); got != "allow" {
		t.Errorf("without a config: %s", got)
	}
}

// Rules with nodes apply to callers of those nodes. Lists are for callers of this host.
func TestAccessByNode(t *testing.T) {
	p := newPolicy(t, "access", `{"default": "deny", "rules": [
		{"effect": "deny", "nodes": ["laptop"], "reason": "no laptops"}, {"effect": "allow", "nodes": ["."], "tools": ["own"]}, {"effect": "allow", "nodes": ["?*"], "tools": ["shared"]}]}`)
	for _, tt := range []struct{ node, tool, want string }{
		{"", "own", "allow"}, {"", "shared", `deny unauthorized: caller "ada" may not use shared`},
		{"web", "shared", "allow"},
		{"web", "own", `deny unauthorized: caller "ada" of node web may not use own`},
		{"laptop", "shared", "deny unauthorized: no laptops"},
	} {
		x := call(tt.tool, `{}`)
		x.Node = tt.node
		if got := ask(t, p, governance.Request, x); got != tt.want {
			t.Errorf("%s at %q: %s", tt.tool, tt.node, got)
		}
	}
	own, shared := governance.Tool{Extension: "files", Name: "own"}, governance.Tool{Extension: "files", Name: "shared"}
	if v := p.(governance.Visibler); !v.Visible("ada", own) || v.Visible("ada", shared) {
		t.Error("the lists are not those of this host's callers")
	}
}

// Rules select tools by their risk, in calls and in lists. A tool whose risk is not known counts as one that destroys.
func TestAccessByRisk(t *testing.T) {
	p := newPolicy(t, "access", `{"default": "deny", "rules": [
		{"effect": "deny", "risk": ["destroy"], "callers": ["ada"], "reason": "ask an adult"},
		{"effect": "allow", "risk": ["read", "destroy"]}]}`)
	for _, tt := range []struct {
		caller, want string
		risk         protocol.Risk
	}{
		{"ada", "allow", "read"}, {"ada", `deny unauthorized: caller "ada" may not use ext_files_x`, "write"},
		{"ada", "deny unauthorized: ask an adult", "destroy"}, {"ada", "deny unauthorized: ask an adult", ""},
		{"root", "allow", "destroy"}, {"root", `deny unauthorized: caller "root" may not use ext_files_x`, "write"},
	} {
		x := call("ext_files_x", `{}`)
		x.Caller, x.Risk = tt.caller, tt.risk
		if got := ask(t, p, governance.Request, x); got != tt.want {
			t.Errorf("%s, risk %q: %s, want %s", tt.caller, tt.risk, got, tt.want)
		}
		listed := p.(governance.Visibler).Visible(tt.caller,
			governance.Tool{Extension: "files", Name: "ext_files_x", Risk: tt.risk})
		if listed != (tt.want == "allow") {
			t.Errorf("%s, risk %q: listed %t", tt.caller, tt.risk, listed)
		}
	}
	read := governance.Exchange{Method: "resources/read", Caller: "root", Extension: "files", ToChild: true}
	if got := ask(t, p, governance.Request, read); !strings.HasPrefix(got, "deny") {
		t.Errorf("what is about no tool is allowed by its risk: %s", got)
	}
	for text, want := range map[string]string{
		`{"rules": [{"effect": "deny", "risk": ["destory"]}]}`: "did you mean destroy?",
		`{"rules": [{"effect": "deny", "risk": ["high"]}]}`:    "there are read, write, destroy",
		`{"rules": [{"effect": "deny", "risk": "read"}]}`:      "not a list such as",
	} {
		if _, err := builtin.New(spec(t, "access", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestRateLimitPerNode(t *testing.T) {
	p := newPolicy(t, "rate_limit", `{"limits": [{"calls": 1, "window": "24h", "per": ["node"]}]}`)
	var got []string
	for _, node := range []string{"", "web", "", "web", "gpu1"} {
		x := call("read", `{}`)
		x.Caller, x.Session, x.Node = "caller of "+node, "session of "+node, node
		got = append(got, ask(t, p, governance.Request, x)[:4])
	}
	if diff := cmp.Diff([]string{"allo", "allo", "deny", "deny", "allo"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolicy(t, "rate_limit",
			`{"limits": [{"calls": 60, "burst": 2, "per": ["caller", "tool"]}, {"calls": 3, "window": "10s", "per": ["session", "extension"]}]}`)
		var got []string
		step := func(x governance.Exchange) { got = append(got, ask(t, p, governance.Request, x)) }
		read, write := call("read", `{}`), call("write", `{}`)
		step(read)
		step(read)
		step(read) // exceeds the burst
		step(write)
		step(write) // exceeds the second limit, and takes nothing from the first
		read.Caller, read.Session = "bob", "s2"
		step(read)
		time.Sleep(time.Second)
		write.Session = "s3"
		step(write)
		step(write)
		step(write)
		up, told := write, write
		up.ToChild, told.Notify = false, true
		step(up)
		step(told)
		got = append(got, ask(t, p, governance.Response, write))
		want := []string{"allow", "allow",
			"deny rate_limited: at most 60 calls a minute for each caller, tool; try again in 1s (1s)",
			"allow", "deny rate_limited: at most 3 calls in 10s for each session, extension; try again in 3.333s " +
				"(3.333333333s)", "allow",
			"allow", "allow", "deny rate_limited: at most 60 calls a minute for each caller, tool; try again in 1s " +
				"(1s)", "allow", "allow", "allow"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestRateLimitForgets checks that the limit of a caller is enforced as long as the entry of the
// caller is stored.
func TestRateLimitForgets(t *testing.T) {
	p := newPolicy(t, "rate_limit", `{"limits": [{"calls": 1, "window": "24h", "per": ["caller"]}]}`)
	from := func(n int) string {
		x := call("read", `{}`)
		x.Caller = fmt.Sprint(n)
		got, _, _ := strings.Cut(ask(t, p, governance.Request, x), " ")
		return got
	}
	for n := range 10_000 {
		if got := from(n); got != "allow" {
			t.Fatal(n, got)
		}
	}
	if got := from(0); got != "deny" {
		t.Errorf("the first of 10000: %s", got)
	}
	if got := from(10_000); got != "allow" {
		t.Error(got)
	}
	if a, b := from(0), from(1); a != "deny" || b != "allow" {
		t.Errorf("one more pushed out the latest (%s), not the oldest (%s)", a, b)
	}
}

// Policies that count decide by the time of an exchange that was in the past.
func TestCountsByTheTimeOfTheExchange(t *testing.T) {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, config := range map[string]string{
		"rate_limit": `{"limits": [{"calls": 1, "window": "1m"}]}`,
		"loop":       `{"calls": 1, "window": "1m"}`,
		"budget":     `{"calls": 1, "window": "1m"}`,
	} {
		p := newPolicy(t, name, config)
		var got []string
		for _, after := range []time.Duration{0, time.Second, 2 * time.Minute, 2*time.Minute + time.Second} {
			x := call("read", `{}`)
			x.At = began.Add(after)
			answer, _, _ := strings.Cut(ask(t, p, governance.Request, x), " ")
			got = append(got, answer)
		}
		if diff := cmp.Diff([]string{"allow", "deny", "allow", "deny"}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolicy(t, "loop", `{"calls": 2, "window": "10s"}`)
		var got []string
		step := func(x governance.Exchange) { got = append(got, ask(t, p, governance.Request, x)) }
		same := call("read", `{"a":1}`)
		step(same)
		time.Sleep(4 * time.Second)
		again := same
		again.Request = json.RawMessage(`{"_meta":{"progressToken":2},"name":"x","arguments":{"a":1}}`)
		step(again)
		step(same)
		step(call("read", `{"a":2}`))
		step(call("write", `{"a":1}`))
		other := same
		other.Session = "s2"
		step(other)
		time.Sleep(6 * time.Second) // the first call is out of the window
		step(same)
		step(same)
		list := governance.Exchange{Method: "tools/list", ToChild: true}
		for range 3 {
			step(list)
		}
		got = append(got, ask(t, p, governance.Response, same))
		loop := "deny loop_detected: read was called 2 times with the same arguments within 10s; try something else, " +
			"or the same call later "
		want := []string{"allow", "allow", loop + "(6s)", "allow", "allow", "allow", "allow", loop + "(4s)", "allow",
			"allow", "allow", "allow"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		asks := newPolicy(t, "loop", `{"calls": 1, "action": "ask"}`)
		first, second := ask(t, asks, governance.Request, same), ask(t, asks, governance.Request, same)
		if first != "allow" || !strings.HasPrefix(second, "ask loop_detected") {
			t.Error(first, second)
		}
	})
}

func TestBudget(t *testing.T) {
	x := call("read", `{"a":1}`) // 59 bytes
	x.Response = json.RawMessage(strings.Repeat("x", 100))
	tests := []struct {
		name, config string
		calls        int // the calls that are allowed
		want         string
	}{
		{"calls", `{"calls": 3}`, 3, "deny budget_exceeded: the budget of 3 calls for this session is used up"},
		{"bytes", `{"bytes": 200}`, 2, "deny budget_exceeded: the budget of 200 bytes for this session is used up"},
		{"tokens", `{"tokens": 100, "bytes": 100000}`, 3,
			"deny budget_exceeded: the budget of 100 tokens for this session is used up"},
		{"for a time", `{"calls": 1, "window": "1h", "per": "caller"}`, 1,
			"deny budget_exceeded: the budget of 1 calls for this caller is used up; the next one begins in 1h0m0s " +
				"(1h0m0s)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPolicy(t, "budget", tt.config)
				for range tt.calls {
					for _, flow := range []governance.Flow{governance.Request, governance.Response} {
						if got := ask(t, p, flow, x); got != "allow" {
							t.Fatal(got)
						}
					}
				}
				if got := ask(t, p, governance.Request, x); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				for _, change := range []func(*governance.Exchange){
					func(x *governance.Exchange) { x.ToChild = false },
					func(x *governance.Exchange) { x.Notify = true },
					func(x *governance.Exchange) { x.Caller = "bob" },
				} {
					other := x
					change(&other)
					if got := ask(t, p, governance.Request, other); got != "allow" {
						t.Error(got)
					}
				}
				other := x
				other.Session = "s2"
				got := ask(t, p, governance.Request, other)
				if (got == "allow") == strings.Contains(tt.config, "caller") {
					t.Errorf("another session: %s", got)
				}
				time.Sleep(time.Hour)
				if got := ask(t, p, governance.Request, x); (got == "allow") != strings.Contains(tt.config, "window") {
					t.Errorf("an hour later: %s", got)
				}
			})
		})
	}
}

func TestSchema(t *testing.T) {
	p := newPolicy(t, "schema", `{"schemas": [
		{"tools": ["files_*"], "arguments": {"required": ["path"], "properties": {"path": {"type": "string", "pattern": "^/home/"}, "mode": {"enum": ["r", "w"]}}},
			"result": {"properties": {"structuredContent": {"properties": {"size": {"type": "integer", "maximum": 10}}}}}},
		{"result": {"not": {"required": ["secret"]}}}]}`)
	tests := []struct {
		tool, arguments, result, want string
	}{
		{"files_read", `{"path":"/home/ada"}`, `{"structuredContent":{"size":3}}`, "allow"},
		{"files_read", `{"path":"/etc","mode":"x"}`, `{}`,
			"deny : the arguments of files_read break the operator's schema: /mode fails enum, /path fails pattern"},
		{"files_read", `{}`, `{}`, "deny : the arguments of files_read break the operator's schema: / fails required"},
		{"web_get", `{}`, `{}`, "allow"},
		{"files_read", `{"path":"/home/ada"}`, `{"structuredContent":{"size":11}}`,
			"deny : the result of files_read breaks the operator's schema: /structuredContent/size fails maximum"},
		{"web_get", `{}`, `{"secret":1}`,
			"deny : the result of web_get breaks the operator's schema: / is not allowed"},
	}
	for _, tt := range tests {
		x := call(tt.tool, tt.arguments)
		got := ask(t, p, governance.Request, x)
		if x.Response = json.RawMessage(tt.result); got == "allow" {
			got = ask(t, p, governance.Response, x)
		}
		if got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
	bare := call("files_read", `{}`)
	bare.Request = json.RawMessage(`{"name":"x"}`)
	if got := ask(t, p, governance.Request, bare); !strings.HasSuffix(got, "/ fails required") {
		t.Errorf("no arguments: %s", got)
	}
	bare.Failure, bare.Response = &protocol.Error{Kind: protocol.ExtensionError}, json.RawMessage(`{"secret":1}`)
	if got := ask(t, p, governance.Response, bare); got != "allow" {
		t.Errorf("a call that failed: %s", got)
	}
}
