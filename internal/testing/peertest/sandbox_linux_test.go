package peertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/status"
)

// boxed is a server with the manifest that its README suggests.
type boxed struct {
	id       string
	manifest string   // the manifest from [transport] on
	calls    []call   // one for each tool at least
	uncalled []string // tools that need a client that answers, or another call at the same time
}

// boxes returns servers that work in dir.
func boxes(t *testing.T, p peers, dir string) []boxed {
	t.Helper()
	work, repo := filepath.Join(dir, "work"), filepath.Join(dir, "repo")
	newRepository(t, repo)
	if err := os.MkdirAll(work, 0o755); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/fastmcp_server.py")
	if err != nil {
		t.Fatal(err)
	}
	npm := func(name, args, asks string) string {
		return fmt.Sprintf("protocol = \"mcp\"\ncommand = %q\nargs = [%s]\n[sandbox]\nprofile = \"node\"\nread = "+
			"[%q]\n%s", p.bin(name), args, filepath.Join(string(p), "node_modules"), asks)
	}
	file := func(name string) string { return filepath.Join(work, name) }
	entity := func(name string) args {
		return args{"name": name, "entityType": "person", "observations": []any{"日本"}}
	}
	knows := []any{args{"from": "a", "to": "b", "relationType": "knows"}}
	return []boxed{
		{id: "everything", manifest: npm("mcp-server-everything", `"stdio"`, ""),
			calls: slices.Concat(everything(p).calls[:7], []call{
				{"get-env", args{}}, {"get-resource-reference", args{}}, {"toggle-simulated-logging", args{}},
				{"toggle-subscriber-updates", args{}},
				{"gzip-file-as-resource", args{"data": "data:text/plain;base64,eA=="}},
			}), uncalled: []string{
				"get-roots-list",
				"trigger-elicitation-request",
				"trigger-sampling-request",
				"trigger-url-elicitation",
				"simulate-research-query",
			}},
		{id: "files", manifest: npm("mcp-server-filesystem", fmt.Sprintf("%q", work),
			fmt.Sprintf("write = [%q]\n", work)), calls: []call{
			{"list_allowed_directories", args{}},
			{"create_directory", args{"path": file("sub")}},
			{"write_file", args{"path": file("x.txt"), "content": "Grüße"}},
			{"edit_file", args{"path": file("x.txt"), "edits": []any{args{"oldText": "Grüße", "newText": "日本"}}}},
			{"read_file", args{"path": file("x.txt")}},
			{"read_text_file", args{"path": file("x.txt")}},
			{"read_media_file", args{"path": file("x.txt")}},
			{"read_multiple_files", args{"paths": []any{file("x.txt")}}},
			{"move_file", args{"source": file("x.txt"), "destination": file("sub/y.txt")}},
			{"list_directory", args{"path": work}},
			{"list_directory_with_sizes", args{"path": work}},
			{"directory_tree", args{"path": work}},
			{"search_files", args{"path": work, "pattern": "**/*.txt"}},
			{"get_file_info", args{"path": file("sub/y.txt")}},
		}},
		{id: "graph", manifest: npm("mcp-server-memory", "",
			"write = [\"{state}\"]\n[transport.env]\nMEMORY_FILE_PATH = \"${EXTHOST_STATE_DIR}/memory.jsonl\"\n"),
			calls: []call{
				{"create_entities", args{"entities": []any{entity("a"), entity("b")}}},
				{"create_relations", args{"relations": knows}},
				{"add_observations", args{"observations": []any{args{"entityName": "a", "contents": []any{"x"}}}}},
				{"read_graph", args{}},
				{"search_nodes", args{"query": "日本"}},
				{"open_nodes", args{"names": []any{"a"}}},
				{"delete_observations", args{"deletions": []any{args{"entityName": "a", "observations": []any{"x"}}}}},
				{"delete_relations", args{"relations": knows}},
				{"delete_entities", args{"entityNames": []any{"a"}}},
			}},
		{id: "repo", manifest: fmt.Sprintf("protocol = \"mcp\"\ncommand = %q\nargs = [\"--repository\", "+
			"%q]\n[sandbox]\nprofile = \"python\"\nread = [\"/etc/gitconfig\", \"~/.gitconfig\"]\nwrite = [%[2]q, "+
			"\"{state}\"]\n", filepath.Join(string(p), "venv3/bin/mcp-server-git"), repo), calls: []call{
			{"git_status", args{"repo_path": repo}},
			{"git_diff_unstaged", args{"repo_path": repo}},
			{"git_add", args{"repo_path": repo, "files": []any{"new.txt"}}},
			{"git_diff_staged", args{"repo_path": repo}},
			{"git_reset", args{"repo_path": repo}},
			{"git_add", args{"repo_path": repo, "files": []any{"new.txt"}}},
			{"git_commit", args{"repo_path": repo, "message": "Add a file"}},
			{"git_create_branch", args{"repo_path": repo, "branch_name": "side"}},
			{"git_checkout", args{"repo_path": repo, "branch_name": "side"}},
			{"git_diff", args{"repo_path": repo, "target": "HEAD~1"}},
			{"git_log", args{"repo_path": repo}},
			{"git_show", args{"repo_path": repo, "revision": "HEAD"}},
			{"git_branch", args{"repo_path": repo, "branch_type": "local"}},
		}},
		{id: "clock", manifest: fmt.Sprintf("protocol = \"mcp\"\ncommand = %q\n[sandbox]\nprofile = \"python\"\n",
			filepath.Join(string(p), "venv3/bin/mcp-server-time")), calls: []call{
			{"get_current_time", args{"timezone": "Asia/Tokyo"}},
			{"convert_time", args{
				"source_timezone": "Europe/Berlin",
				"time":            "16:30",
				"target_timezone": "Asia/Tokyo",
			}},
		}},
		{id: "fast", manifest: fmt.Sprintf("protocol = \"mcp\"\ncommand = %q\nargs = [%q]\n[sandbox]\nprofile = "+
			"\"python\"\nread = [%[2]q]\n", filepath.Join(string(p), "venv/bin/python3"), script),
			calls: append(fastMCP(t, p).calls,
				call{"count", args{"to": 2}}, call{"grow", args{"name": "more"}}),
			uncalled: []string{"wait", "cancelled"}},
	}
}

// newRepository makes a git repository with one commit and a file that is not in it.
func newRepository(t *testing.T, dir string) {
	t.Helper()
	for _, words := range [][]string{
		{"init", "-q", dir}, {"-C", dir, "config", "user.name", "Ünal"},
		{"-C", dir, "config", "user.email", "u@example.com"},
		{"-C", dir, "commit", "-q", "--allow-empty", "-m", "first"},
	} {
		if out, err := exec.Command("git", words...).CombinedOutput(); err != nil {
			t.Skipf("NOT TESTED: %s: git %q: %v: %s", t.Name(), words, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "new.txt"), []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Servers of other projects carry out every call within the sandbox that their README suggests.
func TestSandboxedServers(t *testing.T) {
	if _, err := new(sandbox.Policy).Check(); err != nil {
		t.Skipf("NOT TESTED: %s: %v", t.Name(), err)
	}
	extensions := folder(t.TempDir())
	h := newHost(t, string(extensions))
	dir := t.TempDir()
	all := boxes(t, h.peers, dir)
	for _, b := range all {
		extensions.add(t, b.id, b.manifest)
	}
	url := h.listen(t)
	session := newListener()
	session.ClientSession = connectGo(t, h, h.at(endpoint{Transport: "http", Versions: "legacy"}, url),
		session.options())
	confined := sandboxes(t, h)
	for _, b := range all {
		t.Run(b.id, func(t *testing.T) {
			if s := confined[b.id]; s == nil || len(s.Holds) < 4 || len(s.Lacks) > 0 {
				t.Errorf("its sandbox: %+v", s)
			}
			var want []string
			for name := range session.await(t, 1, registered(b.id, "")) {
				if !slices.Contains(b.uncalled, name[len(registered(b.id, "")):]) {
					want = append(want, name)
				}
			}
			var called []string
			for _, c := range b.calls {
				called = append(called, registered(b.id, c.Name))
				res, err := session.CallTool(deadline(t),
					&mcp.CallToolParams{Name: registered(b.id, c.Name), Arguments: c.Arguments})
				if err != nil || res.IsError {
					t.Errorf("%s %v: %v, %s", c.Name, c.Arguments, err, encode(res))
				}
			}
			slices.Sort(want)
			slices.Sort(called)
			if diff := cmp.Diff(want, slices.Compact(called)); diff != "" {
				t.Errorf("tools (-offered +called):\n%s", diff)
			}
		})
	}
}

// sandboxes returns how the extensions of the running host are confined, by id.
func sandboxes(t *testing.T, h *host) map[string]*status.Sandbox {
	t.Helper()
	out, err := h.command([]string{h.program, "status", "-o", "json"}).Output()
	var s struct{ Status status.Status }
	if err = errors.Join(err, json.Unmarshal(out, &s)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	by := make(map[string]*status.Sandbox)
	for _, x := range s.Status.Extensions {
		by[x.ID] = x.Sandbox
	}
	return by
}
