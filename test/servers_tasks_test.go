package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// serveTasks is an MCP server of legacy, modern or "both" versions with a tool that starts a task. Another tool
// makes it request what a task needs and returns the answer, as does waiting for a result. It knows every task id;
// the task "held" has its result once it is canceled.
func serveTasks(versions string) {
	begun, spoken, held := 0, versions, ""
	var list []string
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				TaskID    string                      `json:"taskId"`
				Name      string                      `json:"name"`
				Arguments struct{ Task, Mark string } `json:"arguments"`
			} `json:"params"`
		}
		_ = json.Unmarshal(in.Bytes(), &m) // params may be anything
		if m.ID == nil {
			continue
		}
		if versions == "both" && m.Method == "initialize" {
			spoken = "older"
		} else if versions == "both" && m.Method == "server/discover" {
			spoken = "newer"
		}
		task := fmt.Sprintf(`"taskId":%q,"status":"working"`, m.Params.TaskID)
		answer := ""
		switch {
		case m.Params.Name == "hang":
			continue
		case m.Params.TaskID == "held" && m.Method == "tasks/cancel":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`+"\n", held)
		}
		switch spoken + " " + m.Method {
		case "older initialize":
			answer = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"t","version":"1"}}`
		case "newer server/discover":
			answer = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"serverInfo":{"name":"t","version":"1"}}`
		case "older tools/list", "newer tools/list":
			answer = `{"resultType":"complete","tools":[{"name":"later","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"poke","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}}]}`
		case "older tools/call", "older tasks/result":
			if about := m.Params.Arguments; about.Task != "" {
				mark := "io.modelcontextprotocol/related-task"
				if about.Mark != "" {
					mark = about.Mark
				}
				fmt.Printf(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}},"_meta":{"%s":{"taskId":%q}}}}`+"\n", mark, about.Task)
				in.Scan()
				if m.Params.TaskID == "held" {
					held = string(m.ID)
					continue
				}
				text, _ := json.Marshal(in.Text())
				answer = fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text)
				break
			}
			if m.Method == "tasks/result" {
				answer = `{"content":[{"type":"text","text":"done"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + m.Params.TaskID + `"}}}`
				break
			}
			begun++
			list = append(list, fmt.Sprintf(`{"taskId":"t%d","status":"working"}`, begun))
			answer = `{"task":` + list[begun-1] + `}`
		case "newer tools/call":
			begun++
			answer = fmt.Sprintf(`{"resultType":"task","taskId":"t%d","status":"working"}`, begun)
		case "older tasks/list":
			answer = `{"tasks":[` + strings.Join(list, ",") + `],"nextCursor":"more"}`
		case "newer tasks/get": // as some examples of the specification have it
			answer = `{"resultType":"task",` + task + `}`
		case "older tasks/get", "older tasks/cancel", "newer tasks/cancel", "newer tasks/update":
			answer = `{"resultType":"complete",` + task + `}`
		}
		if answer == "" {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", m.ID)
			continue
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, answer)
	}
}

// doAs sends a request of a session, whose client, if any, answers requests meanwhile.
func doAs(t *testing.T, h *exthost.Host, s *protocol.Session, extension, method, params string,
) (json.RawMessage, error) {
	return h.Do(hosttest.Deadline(t),
		&protocol.Call{
			Session:   s,
			Client:    s.Client,
			Extension: extension,
			Method:    method,
			Params:    json.RawMessage(params),
		})
}

// A task is found by id at the front of all extensions, but only by its caller, in any session.
func TestTasksBelongToTheirCallers(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Add("older", hosttest.Plays("tasks older", "protocol = \"mcp\"\n"))
	f.Add("newer", hosttest.Plays("tasks newer", "protocol = \"mcp\"\n"))
	h := f.Open(exthost.Options{})
	visit := func(caller, version string) *protocol.Session {
		return &protocol.Session{Caller: caller, Version: version, Capabilities: json.RawMessage(`{}`)}
	}
	do := func(s *protocol.Session, extension, method, params string) string {
		t.Helper()
		result, err := doAs(t, h, s, extension, method, params)
		if err != nil {
			return "error: " + err.(*protocol.Error).Wire().Message
		}
		return string(result)
	}
	for _, server := range []struct {
		extension, version, begin string
		methods                   []string
	}{
		{"older", protocol.MCP20251125, `,"task":{"ttl":60000}`, []string{"tasks/get", "tasks/result", "tasks/cancel"}},
		{"newer", protocol.MCP20260728,
			`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`,
			[]string{"tasks/get", "tasks/update", "tasks/cancel"}},
	} {
		begin := fmt.Sprintf(`{"name":"ext_%s_later","arguments":{}%s}`, server.extension, server.begin)
		if got := do(visit("alice", server.version), "", "tools/call", begin); !strings.Contains(got, `"t1"`) {
			t.Fatal(got)
		}
		if got := do(visit("bob", server.version), "", "tools/call", begin); !strings.Contains(got, `"t2"`) {
			t.Fatal(got)
		}
		for _, method := range server.methods {
			for _, extension := range []string{"", server.extension} {
				for _, tt := range []struct{ caller, id, want string }{
					{"alice", "t1", `"t1"`},
					{"bob", "t2", `"t2"`},
					{"bob", "t1", `there is no task "t1"`},
					{"", "t1", `there is no task "t1"`},
				} {
					got := do(visit(tt.caller, server.version), extension, method, `{"taskId":"`+tt.id+`"}`)
					if !strings.Contains(got, tt.want) ||
						strings.Contains(got, "error") != strings.Contains(tt.want, "no task") {
						t.Errorf("%s at %q of %s by %q: %s", method, extension, tt.id, tt.caller, got)
					}
				}
			}
			if got := do(visit("alice", server.version), "", method, `{"taskId":"t9"}`); !strings.HasPrefix(got,
				`error: there is no task "t9"`) {
				t.Errorf("%s of a task that nobody began: %s", method, got)
			}
			for _, caller := range []string{"alice", "bob"} { // asking first does not make it bob's
				got := do(visit(caller, server.version), server.extension, method, `{"taskId":"t9"}`)
				if !strings.Contains(got, `"t9"`) || strings.Contains(got, "error") {
					t.Errorf("%s by %s of a task that the extension alone knows: %s", method, caller, got)
				}
			}
		}
	}
	for _, params := range []string{
		`{"taskId":"t2","taskId":"t1"}`,
		`{"taskId":"t2","TASKID":"t1"}`,
		`{"taskid":"t1"}`,
		`{"taskId":1}`,
		`{"\u0074askId":"t2","taskId":"t1"}`,
		`{"taskId":""}`,
		`["t1"]`,
		`{}`,
	} {
		for _, extension := range []string{"", "older"} {
			if got := do(visit("bob", protocol.MCP20251125), extension, "tasks/get", params); !strings.Contains(got,
				`needs one "taskId", a string`) {
				t.Errorf("%s at %q: %s", params, extension, got)
			}
		}
	}
	got := do(visit("alice", protocol.MCP20251125), "", "tools/call", `{"name":"ext_older_later","arguments":{}}`)
	if !strings.Contains(got, `"t3"`) {
		t.Error(got)
	}
	for caller, want := range map[string]string{
		"alice": `{"tasks":[{"taskId":"t1","status":"working"}],"nextCursor":"more"}`,
		"bob":   `{"tasks":[{"taskId":"t2","status":"working"}],"nextCursor":"more"}`,
		"carol": `{"tasks":[],"nextCursor":"more"}`,
	} {
		if diff := cmp.Diff(want, do(visit(caller, protocol.MCP20251125), "older", "tasks/list", `{}`)); diff != "" {
			t.Errorf("%s: %s", caller, diff)
		}
	}
	d, err := h.Describe(hosttest.Deadline(t), visit("alice", protocol.MCP20251125))
	if err != nil || !strings.Contains(string(d.Capabilities),
		`"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}`) ||
		!strings.Contains(string(d.Capabilities), `"extensions":{"io.modelcontextprotocol/tasks":{}}`) {
		t.Errorf("all together offer %s, %v", d.Capabilities, err)
	}
}

// A task's requests go to the caller that began it, although the extension works for another, and to no one once
// that caller is gone.
func TestTasksAskTheirCallers(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Add("x", hosttest.Plays("tasks older", "protocol = \"mcp\"\n"))
	h := f.Open(exthost.Options{})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	alice, bob := newClient("alice"), newClient("bob")
	sessions := make(map[*client]*protocol.Session)
	for _, c := range []*client{alice, bob} {
		s := &protocol.Session{
			ID:           "of " + c.name,
			Caller:       c.name,
			Version:      protocol.MCP20251125,
			Client:       c,
			Capabilities: json.RawMessage(`{"elicitation":{"form":{}}}`),
		}
		if err := h.Attach(ctx, s); err != nil {
			t.Fatal(err)
		}
		sessions[c] = s
	}
	call := func(c *client, params string) string {
		t.Helper()
		result, err := doAs(t, h, sessions[c], "", protocol.MethodToolsCall, params)
		if err != nil {
			t.Fatal(err)
		}
		return string(result)
	}
	if got := call(alice, `{"name":"ext_x_later","arguments":{},"task":{}}`); !strings.Contains(got, `"t1"`) {
		t.Fatal(got)
	}
	poke := func(by *client, task string) string {
		t.Helper()
		return call(by, fmt.Sprintf(`{"name":"ext_x_poke","arguments":{"task":%q}}`, task))
	}
	for _, tt := range []struct {
		by    *client
		task  string
		asked *client
	}{
		{bob, "t1", alice},
		{alice, "t1", alice},
		{bob, "t9", bob}, // the only possible one
	} {
		before := len(tt.asked.Told())
		if got := poke(tt.by, tt.task); !strings.Contains(got, "accept") {
			t.Errorf("the request about %s of %s is answered with %s", tt.task, tt.by.name, got)
		}
		asked := slices.DeleteFunc(slices.Clone(tt.asked.Told()[before:]),
			// may arrive at any time
			func(m string) bool { return strings.HasPrefix(m, protocol.MethodToolsListChanged) })
		if !slices.Equal(asked, []string{"elicitation/create?"}) {
			t.Errorf("%s hears %s of %s", tt.asked.name, asked, tt.task)
		}
	}
	leave()
	hosttest.Eventually(t, "alice has left",
		func() bool { return strings.Contains(poke(bob, "t1"), "nobody can be asked") })
}

// A task belongs to its caller at every instance of the extension, and however its id is spelled.
func TestTasksBelongToTheirCallersAtEveryInstance(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Add("own", hosttest.Plays("tasks older", "protocol = \"mcp\"\n[runtime]\ninstances = \"per_session\"\n"))
	f.Add("both", hosttest.Plays("tasks both", "protocol = \"mcp\"\n"))
	f.Add("newer", hosttest.Plays("tasks newer", "protocol = \"mcp\"\n"))
	h := f.Open(exthost.Options{})
	const begins = `{"name":"ext_%s_later","arguments":{},"task":{},"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28","io.modelcontextprotocol\/clientCapabilities":{"extensions":{"io.modelcontextprotocol\/tasks":{}}}}}`
	visit := func(caller, version, id string) *protocol.Session {
		return &protocol.Session{ID: id, Caller: caller, Version: version, Capabilities: json.RawMessage(`{}`)}
	}
	for _, tt := range []struct{ extension, begins, reads string }{
		{"own", protocol.MCP20251125, protocol.MCP20251125},
		{"both", protocol.MCP20251125, protocol.MCP20260728},
		{"newer", protocol.MCP20260728, protocol.MCP20260728},
	} {
		alice := visit("alice", tt.begins, "a"+tt.extension)
		result, err := doAs(t, h, alice, "", protocol.MethodToolsCall, fmt.Sprintf(begins, tt.extension))
		if err != nil || !strings.Contains(string(result), `"t1"`) {
			t.Fatalf("%s, %v", result, err)
		}
		for caller, want := range map[string]bool{"alice": true, "bob": false} {
			s := visit(caller, tt.reads, caller+tt.extension)
			for _, extension := range []string{"", tt.extension} {
				result, err := doAs(t, h, s, extension, "tasks/get", `{"taskId":"t1"}`)
				if (err == nil) != want {
					t.Errorf("%s is told of alice's task at %q of %s: %s, %v", caller, extension, tt.extension, result,
						err)
				}
			}
		}
	}
}

// Legacy task capabilities of an extension that speaks both versions are offered.
func TestTasksOfBothVersionsAreOffered(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Add("both", hosttest.Plays("tasks both", "protocol = \"mcp\"\n"))
	h := f.Open(exthost.Options{})
	s, c := stay(t, h, "a", protocol.MCP20251125, "")
	_ = callTool(t, h, s, c, "ext_both_later", `{}`)
	d, err := h.Describe(hosttest.Deadline(t), s)
	if err != nil || !strings.Contains(string(d.Capabilities), `"tasks":{`) ||
		!strings.Contains(string(d.Capabilities), `"extensions":{`) {
		t.Errorf("all together offer %s, %v", d.Capabilities, err)
	}
}

// Tasks, and waiting for their results, may take longer than call_timeout.
func TestTasksOutlastCalls(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Add("x", hosttest.Plays("tasks older", "protocol = \"mcp\"\n[runtime]\ncall_timeout = \"100ms\"\n"))
	h := f.Open(exthost.Options{})
	s, c := stay(t, h, "a", protocol.MCP20251125, "x")
	do := func(method, params string) error {
		_, err := doAs(t, h, s, "x", method, params)
		return err
	}
	waited := make(chan error, 1)
	go func() { waited <- do("tasks/result", `{"taskId":"held","arguments":{"task":"held"}}`) }()
	hosttest.Eventually(t, "the wait has begun", func() bool { return len(c.Told()) > 0 })
	if err := do("tools/call", `{"name":"hang","arguments":{}}`); protocol.KindOf(err) != protocol.CallTimeout {
		t.Errorf("a call that takes too long: %v", err)
	}
	if err := do("tasks/cancel", `{"taskId":"held"}`); err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("the wait for a result: %v", err)
	}
}

// Of a caller's sessions, the one that began the task or waits for its result is asked.
func TestTasksAskTheirSessions(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Add("x", hosttest.Plays("tasks older", "protocol = \"mcp\"\n"))
	h := f.Open(exthost.Options{})
	one, first := stay(t, h, "one", protocol.MCP20251125, "")
	two, second := stay(t, h, "two", protocol.MCP20251125, "")
	stray := &protocol.Session{
		ID:           "stray",
		Version:      protocol.MCP20251125,
		Client:       newClient("stray"),
		Capabilities: json.RawMessage(`{}`),
	}
	do := func(s *protocol.Session, method, params string) string {
		t.Helper()
		result, err := doAs(t, h, s, "x", method, params)
		if err != nil {
			t.Fatal(err)
		}
		return string(result)
	}
	for n, s := range []*protocol.Session{one, stray} {
		if got := do(s, "tools/call", `{"name":"later","arguments":{},"task":{}}`); !strings.Contains(got,
			fmt.Sprintf(`"t%d"`, n+1)) {
			t.Fatal(got)
		}
	}
	for _, tt := range []struct {
		method, params string
		asked          *client
	}{
		{"tools/call", `{"name":"poke","arguments":{"task":"t1"}}`, first},
		{"tools/call", `{"name":"poke","arguments":{"task":"t1","mark":"io.modelcontextprotocol\\/related-task"}}`,
			first},
		{"tasks/result", `{"taskId":"t1","arguments":{"task":"t1"}}`, second},
		{"tools/call", `{"name":"poke","arguments":{"task":"t2"}}`, second},
	} {
		before := len(tt.asked.Told())
		if got := do(two, tt.method, tt.params); !strings.Contains(got, "accept") {
			t.Errorf("%s %s: %s", tt.method, tt.params, got)
		}
		asked := slices.DeleteFunc(slices.Clone(tt.asked.Told()[before:]),
			// may arrive at any time
			func(m string) bool { return strings.HasPrefix(m, protocol.MethodToolsListChanged) })
		if !slices.Equal(asked, []string{"elicitation/create?"}) {
			t.Errorf("%s %s: %s hears %s", tt.method, tt.params, tt.asked.name, asked)
		}
	}
}

// Policies about a tool apply to its tasks: who may ask about them, and what their results may contain.
func TestTasksAreGovernedAsTheirTools(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Add("x", hosttest.Plays("tasks older", "protocol = \"mcp\"\n"))
	cfg := f.Config()
	later := []any{"ext_x_later"}
	cfg.Plugins = []governance.Spec{
		{Name: "access", Builtin: "access", Category: governance.Authorization,
			Config: map[string]any{
				"default": "deny",
				"rules":   []any{map[string]any{"effect": "allow", "tools": later}},
			}},
		{Name: "silent", Builtin: "schema", Category: governance.Validation,
			Config: map[string]any{
				"schemas": []any{
					map[string]any{
						"tools": later,
						"result": map[string]any{
							"properties": map[string]any{"content": map[string]any{"maxItems": 0}},
						},
					},
				},
			}},
	}
	h := f.OpenWith(cfg, exthost.Options{})
	alice := &protocol.Session{Caller: "alice", Version: protocol.MCP20251125, Capabilities: json.RawMessage(`{}`)}
	for _, tt := range []struct{ extension, method, params, want string }{
		{"", "tools/call", `{"name":"ext_x_poke","arguments":{}}`, "may not use ext_x_poke"},
		{"", "tools/call", `{"name":"ext_x_later","arguments":{},"task":{}}`, ""},
		{"", "tasks/get", `{"taskId":"t1"}`, ""},
		{"x", "tasks/get", `{"taskId":"t1"}`, ""},
		{"", "tasks/result", `{"taskId":"t1"}`, "the result of ext_x_later breaks"},
		{"x", "tasks/result", `{"taskId":"t1"}`, "the result of ext_x_later breaks"},
		{"x", "tasks/get", `{"taskId":"t9"}`, "may not use tasks/get"},
	} {
		result, err := doAs(t, h, alice, tt.extension, tt.method, tt.params)
		if got := fmt.Sprint(err); (err != nil) != (tt.want != "") || err != nil && !strings.Contains(got, tt.want) {
			t.Errorf("%s %s at %q: %s, %v", tt.method, tt.params, tt.extension, result, err)
		}
	}
}
