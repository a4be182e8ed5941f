package peertest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// serveTasks is a modern MCP server whose tasks are complete at the second
// request for them.
func serveTasks() {
	task := func(id string) string {
		return fmt.Sprintf(`"taskId":%q,"createdAt":"2026-11-22T00:00:00Z","lastUpdatedAt":"2026-11-22T00:00:00Z","ttlMs":60000,"pollIntervalMs":10`, id)
	}
	asked := make(map[string]int) // by the id of the task
	for line := range input() {
		answer := `"error":{"code":-32601,"message":"no"}`
		switch method, _ := rawjson.Text(rawjson.Get(line, "method")); method {
		case "server/discover":
			answer = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"ttlMs":0,"cacheScope":"private"}`
		case "tools/list":
			answer = `"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"later","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			id := fmt.Sprintf("t-%d-%d", os.Getpid(), len(asked)+1)
			answer = `"result":{"resultType":"task","status":"working",` + task(id) + `}`
			asked[id] = 0
		case "tasks/get":
			id, _ := rawjson.Text(rawjson.Get(rawjson.Get(line, "params"), "taskId"))
			if _, known := asked[id]; !known {
				answer = `"error":{"code":-32602,"message":"the server has no such task"}`
			} else if asked[id]++; asked[id] == 1 {
				answer = `"result":{"resultType":"complete","status":"working",` + task(id) + `}`
			} else {
				answer = `"result":{"resultType":"complete","status":"completed",` + task(id) +
					`,"result":{"resultType":"complete","content":[{"type":"text","text":"later"}]}}`
			}
		}
		if id := rawjson.Get(line, "id"); id != nil {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", id, answer)
		}
	}
}

// TestTasks runs tools as tasks with clients of both generations, at the endpoint of all
// extensions and at that of one.
func TestTasks(t *testing.T) {
	extensions := folder(t.TempDir())
	h := newHost(t, string(extensions))
	s := everything(h.peers)
	extensions.add(t, s.id, "protocol = \"mcp\"\n"+launch(s.argv))
	extensions.add(t, "newer", "protocol = \"mcp\"\n"+scripted(t, "tasks"))
	h.runsTasks(t, h.listen(t), s)
}

// runsTasks runs tools as tasks at the host that url reaches.
func (h *host) runsTasks(t *testing.T, url string, s server) {
	research, later := args{"topic": "hosts"}, args{}
	for _, tt := range []struct {
		client, versions, front, tool string
		arguments                     args
		want                          []string
	}{
		{"v1", "legacy", "/mcp", registered(s.id, "simulate-research-query"), research,
			[]string{"taskCreated", "taskStatus", "result # Research Report: hosts"}},
		{"v1", "legacy", "/" + s.id + "/mcp", "simulate-research-query", research,
			[]string{"taskCreated", "taskStatus", "result # Research Report: hosts"}},
		{"v2", "legacy", "/mcp", registered(s.id, "simulate-research-query"), research,
			[]string{"task", "result # Research Report: hosts"}},
		{"v2", "modern", "/mcp", registered("newer", "later"), later, []string{"task", "result later"}},
		{"v2", "modern", "/newer/mcp", "later", later, []string{"task", "result later"}},
		{"v2", "modern", "/mcp", "ext_write", args{"tool": registered("newer", "later")},
			[]string{"task", "result later"}},
	} {
		t.Run(tt.client+tt.front+" "+tt.versions, func(t *testing.T) {
			t.Parallel()
			script, err := filepath.Abs("testdata/tasks.mjs")
			if err != nil {
				t.Fatal(err)
			}
			out, errs, err := h.node(t, script, encode(map[string]any{
				"client":   tt.client,
				"endpoint": endpoint{URL: url + tt.front, Versions: tt.versions},
				"tool":     tt.tool,
				"args":     tt.arguments,
			}))
			if err != nil {
				t.Fatalf("%v\n%s", err, errs)
			}
			var got []string
			if err := json.Unmarshal(out, &got); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%s, want %q", out, tt.want)
			}
		})
	}
}

// TestReplayedTasks records two clients that run tools as tasks at the same time. Two other clients then make the same
// calls to the replay, and get the same results, however often each asks for the state of its task.
func TestReplayedTasks(t *testing.T) {
	needPeers(t)
	cassette, config := filepath.Join(t.TempDir(), "tasks.cassette"), filepath.Join(t.TempDir(), "record.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "record: {file: %q}\n", cassette), 0o600); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"v1 legacy": `["taskCreated","taskStatus","result # Research Report: hosts"]`,
		"v2 modern": `["task","result later"]`,
	}
	for _, phase := range []string{"recorded", "replayed"} {
		t.Run(phase, func(t *testing.T) {
			extensions := folder(t.TempDir())
			h := newHost(t, string(extensions))
			s := everything(h.peers)
			var url string
			if phase == "recorded" {
				extensions.add(t, s.id, "protocol = \"mcp\"\n"+launch(s.argv))
				extensions.add(t, "newer", "protocol = \"mcp\"\n"+scripted(t, "tasks"))
				url = h.listen(t, "--config", config)
			} else {
				for _, id := range []string{s.id, "newer"} {
					extensions.add(t, id, fmt.Sprintf("kind = \"replay\"\nfile = %q\nextension = %q", cassette, id))
				}
				url = h.listen(t)
			}
			script, err := filepath.Abs("testdata/tasks.mjs")
			if err != nil {
				t.Fatal(err)
			}
			var clients sync.WaitGroup
			for _, c := range []struct{ client, versions, front, tool string }{
				{"v1", "legacy", s.id, "simulate-research-query"}, {"v1", "legacy", s.id, "simulate-research-query"},
				{"v2", "modern", "newer", "later"}, {"v2", "modern", "newer", "later"},
			} {
				clients.Go(func() {
					arguments := args{}
					if c.client == "v1" {
						arguments["topic"] = "hosts"
					}
					out, errs, err := h.node(t, script, encode(map[string]any{
						"client":   c.client,
						"endpoint": endpoint{URL: url + "/" + c.front + "/mcp", Versions: c.versions},
						"tool":     c.tool,
						"args":     arguments,
					}))
					if got := strings.TrimSpace(string(out)); err != nil || got != want[c.client+" "+c.versions] {
						t.Errorf("%s %s: %s, %v\n%s", c.client, c.versions, got, err, errs)
					}
				})
			}
			clients.Wait()
		})
	}
}
