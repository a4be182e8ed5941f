package exthost_test

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
	"github.com/exthost/exthost/internal/process/processtest"
	"github.com/exthost/exthost/protocol"
)

// serveTasks is an MCP server of one era with a tool that is done later. Another makes
// it ask for what a task needs, and returns the answer.
func serveTasks(era string) {
	begun := 0
	var list []string
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				TaskID    string                `json:"taskId"`
				Name      string                `json:"name"`
				Arguments struct{ Task string } `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		task := fmt.Sprintf(`"taskId":%q,"status":"working"`, m.Params.TaskID)
		answer := ""
		switch era + " " + m.Method {
		case "older initialize":
			answer = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"t","version":"1"}}`
		case "newer server/discover":
			answer = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"serverInfo":{"name":"t","version":"1"}}`
		case "older tools/list", "newer tools/list":
			answer = `{"resultType":"complete","tools":[{"name":"later","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"poke","inputSchema":{"type":"object"}}]}`
		case "older tools/call":
			if m.Params.Name == "poke" {
				fmt.Printf(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}}}`+"\n", m.Params.Arguments.Task)
				in.Scan()
				text, _ := json.Marshal(in.Text())
				answer = fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text)
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
		case "older tasks/get", "older tasks/cancel", "newer tasks/get", "newer tasks/cancel", "newer tasks/update":
			answer = `{"resultType":"complete",` + task + `}`
		case "older tasks/result":
			answer = `{"content":[{"type":"text","text":"done"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + m.Params.TaskID + `"}}}`
		}
		if answer == "" {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", m.ID)
			continue
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, answer)
	}
}

// A task is found by its id at the front of all extensions, and is there for its
// caller alone, in whatever session.
func TestTasksAreTheirCallers(t *testing.T) {
	processtest.Leaks(t)
	f := newFolder(t)
	f.add("older", plays("tasks older", "protocol = \"mcp\"\n"))
	f.add("newer", plays("tasks newer", "protocol = \"mcp\"\n"))
	h := f.open(exthost.Options{})
	visit := func(caller, version string) *protocol.Session {
		return &protocol.Session{Caller: caller, Version: version, Capabilities: json.RawMessage(`{}`)}
	}
	do := func(s *protocol.Session, extension, method, params string) string {
		t.Helper()
		result, err := h.Do(deadline(t), &protocol.Call{Session: s, Extension: extension, Method: method, Params: json.RawMessage(params)})
		if err != nil {
			return "error: " + err.(*protocol.Error).Wire().Message
		}
		return string(result)
	}
	for _, era := range []struct {
		extension, version, begin string
		methods                   []string
	}{
		{"older", protocol.MCP20251125, `,"task":{"ttl":60000}`, []string{"tasks/get", "tasks/result", "tasks/cancel"}},
		{"newer", protocol.MCP20260728, `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`,
			[]string{"tasks/get", "tasks/update", "tasks/cancel"}},
	} {
		begin := fmt.Sprintf(`{"name":"ext_%s_later","arguments":{}%s}`, era.extension, era.begin)
		if got := do(visit("alice", era.version), "", "tools/call", begin); !strings.Contains(got, `"t1"`) {
			t.Fatal(got)
		}
		if got := do(visit("bob", era.version), "", "tools/call", begin); !strings.Contains(got, `"t2"`) {
			t.Fatal(got)
		}
		for _, method := range era.methods {
			for _, extension := range []string{"", era.extension} {
				for _, tt := range []struct{ caller, id, want string }{
					{"alice", "t1", `"t1"`},
					{"bob", "t2", `"t2"`},
					{"bob", "t1", `there is no task "t1"`},
					{"", "t1", `there is no task "t1"`},
				} {
					if got := do(visit(tt.caller, era.version), extension, method, `{"taskId":"`+tt.id+`"}`); !strings.Contains(got, tt.want) || strings.Contains(got, "error") != strings.Contains(tt.want, "no task") {
						t.Errorf("%s at %q of %s by %q: %s", method, extension, tt.id, tt.caller, got)
					}
				}
			}
			if got := do(visit("alice", era.version), "", method, `{"taskId":"t9"}`); !strings.HasPrefix(got, `error: there is no task "t9"`) {
				t.Errorf("%s of a task that nobody began: %s", method, got)
			}
			if got := do(visit("alice", era.version), era.extension, method, `{"taskId":"t9"}`); !strings.Contains(got, `"t9"`) || strings.Contains(got, "error") {
				t.Errorf("%s of a task that the extension alone knows: %s", method, got)
			}
		}
	}
	for _, params := range []string{`{"taskId":"t2","taskId":"t1"}`, `{"taskId":"t2","TASKID":"t1"}`, `{"taskid":"t1"}`, `{"taskId":1}`, `{"\u0074askId":"t2","taskId":"t1"}`} {
		for _, extension := range []string{"", "older"} {
			if got := do(visit("bob", protocol.MCP20251125), extension, "tasks/get", params); !strings.Contains(got, `needs one "taskId", a string`) {
				t.Errorf("%s at %q: %s", params, extension, got)
			}
		}
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
	d, err := h.Describe(deadline(t), visit("alice", protocol.MCP20251125))
	if err != nil || !strings.Contains(string(d.Capabilities), `"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}`) ||
		!strings.Contains(string(d.Capabilities), `"extensions":{"io.modelcontextprotocol/tasks":{}}`) {
		t.Errorf("all together offer %s, %v", d.Capabilities, err)
	}
}

// A question about a task goes to who began it, though the extension works for
// somebody else at the time, and to nobody when that one is gone.
func TestTasksAskTheirCallers(t *testing.T) {
	processtest.Leaks(t)
	f := newFolder(t)
	f.add("x", plays("tasks older", "protocol = \"mcp\"\n"))
	h := f.open(exthost.Options{})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	alice, bob := newClient("alice"), newClient("bob")
	sessions := make(map[*client]*protocol.Session)
	for _, c := range []*client{alice, bob} {
		s := &protocol.Session{ID: "of " + c.name, Caller: c.name, Version: protocol.MCP20251125, Client: c, Capabilities: json.RawMessage(`{"elicitation":{"form":{}}}`)}
		if err := h.Attach(ctx, s); err != nil {
			t.Fatal(err)
		}
		sessions[c] = s
	}
	call := func(c *client, params string) string {
		t.Helper()
		result, err := h.Do(deadline(t), &protocol.Call{Session: sessions[c], Client: c, Method: protocol.MethodToolsCall, Params: json.RawMessage(params)})
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
		{bob, "t9", bob}, // which is the only one that can be meant
	} {
		before := len(tt.asked.told())
		if got := poke(tt.by, tt.task); !strings.Contains(got, "accept") {
			t.Errorf("the question about %s of %s is answered with %s", tt.task, tt.by.name, got)
		}
		if asked := tt.asked.told()[before:]; !slices.Equal(asked, []string{"elicitation/create?"}) {
			t.Errorf("%s hears %s of %s", tt.asked.name, asked, tt.task)
		}
	}
	leave()
	eventually(t, "alice has left", func() bool { return strings.Contains(poke(bob, "t1"), "nobody can be asked") })
}
