//lint:file-ignore SA1019 the servers of today use what is deprecated

package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/listing/toolsearch"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// askedServers returns the URL of a host in search mode, with servers that ask their clients and one that reports
// progress.
func askedServers(t *testing.T) (*exthost.Host, string) {
	f := hosttest.NewFolder(t).Add("both", rich("", "")).Add("older", rich("older", "")).Add("newer",
		rich("newer", "")).Add("x", hosttest.Child("sdk", ""))
	cfg := f.Config()
	cfg.Tools.Mode = toolsearch.ModeSearch
	h := f.OpenWith(cfg, exthost.Options{})
	if err := h.Ready(hosttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	return h, hosttest.ServeOptions(t, httpserver.Options{Backend: h, Serves: h.Serves}) + "/mcp"
}

// Direct calls and calls by ext_write are equal for official clients and servers of both eras: the server's
// requests, progress and result.
func TestExtCallWithOfficialClients(t *testing.T) {
	processtest.Leaks(t)
	h, url := askedServers(t)
	for _, version := range []string{protocol.MCP20251125, protocol.MCP20260728} {
		var mu sync.Mutex
		var heard []string
		hear := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, what)
		}
		progressed := make(chan struct{}, 100)
		c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				hear("elicitation " + r.Params.Message)
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
			},
			CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
				hear("sampling")
				return &mcp.CreateMessageResult{
					Model:   "m",
					Role:    "assistant",
					Content: &mcp.TextContent{Text: "x"},
				}, nil
			},
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
				if r.Params.Progress < 1 { // the host says what a call waits for, if that takes long
					return
				}
				hear(fmt.Sprint("progress ", r.Params.ProgressToken, r.Params.Progress, r.Params.Total))
				progressed <- struct{}{}
			},
		})
		c.AddRoots(&mcp.Root{URI: "file:///here"})
		s, err := c.Connect(hosttest.Deadline(t), &mcp.StreamableClientTransport{Endpoint: url},
			&mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		if list, err := s.ListTools(hosttest.Deadline(t), nil); err != nil || len(list.Tools) != 4 {
			t.Errorf("%s: %+v, %v", version, list, err)
		}
		call := func(name string, arguments any, steps int) []string {
			heard = nil
			p := &mcp.CallToolParams{Name: name, Arguments: arguments}
			p.SetProgressToken("token")
			r, err := s.CallTool(hosttest.Deadline(t), p)
			for range steps {
				select {
				case <-progressed:
				case <-hosttest.Deadline(t).Done():
					t.Fatal("no progress")
				}
			}
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(heard) // requests in one result are sent concurrently
			raw, _ := json.Marshal(r)
			return append(slices.Clone(heard), string(raw), fmt.Sprint(err))
		}
		for _, tt := range []struct {
			tool, arguments, want string
			steps                 int
		}{
			{"ext_older_ask", `{"for":"roots"}`, "file:///here", 0}, {"ext_older_ask", `{"for":"sampling"}`, `"m"`, 0},
			{"ext_older_ask", `{}`, "accept", 0},
			{"ext_older_input", `{}`, "file:///here", 0}, {"ext_newer_input", `{}`, "file:///here", 0},
			{"ext_both_input", `{}`, "file:///here", 0},
			{"ext_newer_both", `{}`, "file:///here accept", 0}, {"ext_both_both", `{}`, "file:///here accept", 0},
			{"ext_x_work", `{}`, "", 3}, {"ext_x_refuse", `{}`, "", 0}, {"ext_x_fail", `{}`, "", 0},
		} {
			direct := call(tt.tool, json.RawMessage(tt.arguments), tt.steps)
			wrapped := call("ext_write", map[string]any{"tool": tt.tool, "arguments": json.RawMessage(tt.arguments)},
				tt.steps)
			for i := range direct { // the SDK names the called tool
				direct[i] = strings.ReplaceAll(direct[i], tt.tool, "ext_write")
			}
			if diff := cmp.Diff(direct, wrapped); diff != "" || !strings.Contains(strings.Join(wrapped, " "), tt.want) {
				t.Errorf("%s of %s: want %q (-direct +by ext_write):\n%s", tt.tool, version, tt.want, diff)
			}
		}
		ctx, cancel := context.WithCancel(hosttest.Deadline(t))
		waiting := make(chan error, 1)
		go func() {
			_, err := s.CallTool(ctx,
				&mcp.CallToolParams{Name: "ext_write", Arguments: map[string]any{"tool": "ext_x_wait"}})
			waiting <- err
		}()
		hosttest.Eventually(t, "the call is under way",
			func() bool { return hosttest.StatusOf(t, h, "x").Instances[0].InFlight == 1 })
		cancel()
		if err := <-waiting; err == nil {
			t.Error("a call that was canceled has a result")
		}
		hosttest.Eventually(t, "the tool hears that the call was canceled",
			func() bool { return hosttest.StatusOf(t, h, "x").Instances[0].InFlight == 0 })
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// rawRequest sends a request of 2026-07-28 and returns the result or the error.
func rawRequest(t *testing.T, url, method, params string) string {
	t.Helper()
	var named struct{ Name, TaskID string }
	_ = json.Unmarshal([]byte(params), &named) // written by the test
	params = strings.Replace(params, "{",
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},`+
			`"io.modelcontextprotocol/clientCapabilities":{"roots":{},"elicitation":{},"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}},`, 1)
	r, err := http.NewRequestWithContext(hosttest.Deadline(t), http.MethodPost, url,
		bytes.NewBufferString(fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params)))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"Content-Type":         "application/json",
		"Accept":               "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method":           method,
		"Mcp-Name":             named.Name + named.TaskID,
	} {
		if value != "" {
			r.Header.Set(key, value)
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(body) { // in a stream the last event is the response
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			body = data
		}
	}
	if result := rawjson.Get(body, "result"); result != nil {
		return string(result)
	}
	return string(body)
}

// A raw client of 2026-07-28 answers input requests of a tool called by ext_write, and runs it as a task.
func TestExtCallWithInputRequests(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("newer", rich("newer", "")).Add("older", rich("older", "")).Add("tasks",
		hosttest.Plays("tasks newer", "protocol = \"mcp\"\n")).Add("early",
		hosttest.Plays("tasks older", "protocol = \"mcp\"\n"))
	cfg := f.Config()
	cfg.Tools.Mode = toolsearch.ModeSearch
	h := f.OpenWith(cfg, exthost.Options{})
	if err := h.Ready(hosttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	url := hosttest.ServeOptions(t, httpserver.Options{Backend: h, Serves: h.Serves}) + "/mcp"
	for tool, want := range map[string]string{
		"ext_newer_input": "file:///raw",
		"ext_newer_both":  "file:///raw accept",
		"ext_older_ask":   "accept",
	} {
		call := fmt.Sprintf(`"name":"ext_write","arguments":{"tool":%q,"arguments":{}}`, tool)
		first := rawRequest(t, url, "tools/call", "{"+call+"}")
		if got, _ := rawjson.Text(rawjson.Get(json.RawMessage(first), "resultType")); got != "input_required" {
			t.Errorf("%s: %s", tool, first)
			continue
		}
		var responses []string
		for key, request := range rawjson.Members(rawjson.Get(json.RawMessage(first), "inputRequests")) {
			response := `{"roots":[{"uri":"file:///raw"}]}`
			if method, _ := rawjson.Text(rawjson.Get(request, "method")); method == "elicitation/create" {
				response = `{"action":"accept","content":{}}`
			}
			responses = append(responses, fmt.Sprintf("%q:%s", key, response))
		}
		state := rawjson.Get(json.RawMessage(first), "requestState")
		second := rawRequest(t, url, "tools/call",
			fmt.Sprintf(`{%s,"requestState":%s,"inputResponses":{%s}}`, call, state, strings.Join(responses, ",")))
		if got := protocol.ToolResult(second).Text(); got != want {
			t.Errorf("%s goes on with %s: %s", tool, state, second)
		}
	}
	begun := rawRequest(t, url, "tools/call", `{"name":"ext_write","arguments":{"tool":"ext_tasks_later"}}`)
	task, _ := rawjson.Text(rawjson.Get(json.RawMessage(begun), "taskId"))
	if task == "" {
		t.Fatalf("a task: %s", begun)
	}
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if got := rawRequest(t, url, method, fmt.Sprintf(`{"taskId":%q}`, task)); !strings.Contains(got, `"working"`) {
			t.Errorf("%s: %s", method, got)
		}
	}
	// Legacy clients state the task beside the name.
	s := &protocol.Session{ID: "s", Caller: "ada", Version: protocol.MCP20251125, Capabilities: json.RawMessage(`{}`)}
	raw, err := doAs(t, h, s, "", "tools/call",
		`{"name":"ext_write","arguments":{"tool":"ext_early_later"},"task":{"ttl":60000}}`)
	id, _ := rawjson.Text(rawjson.Get(rawjson.Get(raw, "task"), "taskId"))
	if err != nil || id == "" {
		t.Fatalf("%s, %v", raw, err)
	}
	for method, want := range map[string]string{"tasks/get": "working", "tasks/result": "done"} {
		if raw, err := doAs(t, h, s, "", method, fmt.Sprintf(`{"taskId":%q}`, id)); err != nil ||
			!strings.Contains(string(raw), want) {
			t.Errorf("%s: %s, %v", method, raw, err)
		}
	}
	stranger := &protocol.Session{
		ID:           "e",
		Caller:       "eve",
		Version:      protocol.MCP20251125,
		Capabilities: json.RawMessage(`{}`),
	}
	if raw, err := doAs(t, h, stranger, "", "tasks/get", fmt.Sprintf(`{"taskId":%q}`, id)); err == nil {
		t.Errorf("a stranger gets %s", raw)
	}
}
