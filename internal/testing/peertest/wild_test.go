package peertest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/cli/console"
)

// wildVar is the directory that .ci/wild creates.
const wildVar = "EXTHOST_WILD"

// wild is a server as a user installs it: in a folder of its own in a project, with its dependencies.
type wild struct {
	id      string
	from    string   // id of the server whose installation it shares; "": its own
	command []string // run in its folder
	env     string   // environment in its manifest
	calls   []string // TOOL ARG..., one for each start in turn; DIR is its folder, N a number
	code    string   // a file of its code, relative to its folder
	shadow  string   // a missing file that it would load, relative to its folder
}

var wilds = []wild{
	{"everything", "", []string{"node", "node_modules/@modelcontextprotocol/server-everything/dist/index.js"}, "",
		[]string{"echo message=N"}, "node_modules/@modelcontextprotocol/server-everything/dist/index.js",
		"node_modules/zod/N.js"},
	{"files", "", []string{"node_modules/.bin/mcp-server-filesystem", "."}, "",
		[]string{
			"write_file path=DIR/notes-N.md content=import",
			"write_file path=DIR/state content=N",
			"write_file path=DIR/x.json content={},",
		}, "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js", "package.json.cjs"},
	{"graph", "", []string{"node", "node_modules/@modelcontextprotocol/server-memory/dist/index.js"}, "",
		[]string{`create_entities entities=[{"name":"N","entityType":"person","observations":["one"]}]`},
		"node_modules/@modelcontextprotocol/server-memory/dist/index.js",
		"node_modules/@modelcontextprotocol/server-memory/dist/fs.mjs"},
	{"graphfile", "graph", []string{"node", "node_modules/@modelcontextprotocol/server-memory/dist/index.js"},
		`env = {MEMORY_FILE_PATH = "DIR/memory.json"}`,
		[]string{`create_entities entities=[{"name":"N","entityType":"person","observations":["one"]}]`},
		"node_modules/@modelcontextprotocol/server-memory/dist/index.js", "node_modules/extra/index.js"},
	{"clock", "", []string{"venv/bin/python3", "-m", "mcp_server_time", "--local-timezone", "UTC"}, "",
		[]string{"get_current_time timezone=UTC"}, "venv/bin/activate", "mcp.py"},
	{"repo", "", []string{"venv/bin/python3", "-m", "mcp_server_git", "--repository", "data"}, "",
		[]string{
			"git_status repo_path=DIR/data",
			"git_create_branch repo_path=DIR/data branch_name=fix-N.py",
			"git_commit repo_path=DIR/data message=echo",
		}, "venv/bin/activate", "data/.git/hooks/post-commit"},
	{"lite", "", []string{
		"venv/bin/python3",
		"-c",
		"from mcp_server_sqlite import main; main()",
		"--db-path",
		"store.db",
	}, "", []string{"create_table query=CREATE_TABLE", "append_insight insight=N"}, "venv/bin/activate", "sqlite3.py"},
	{"book", "", []string{"venv/bin/python3", "-m", "excel_mcp", "stdio"}, "",
		[]string{"create_workbook path=DIR/book-N.xlsx"}, "venv/bin/activate", "openpyxl.py"},
	// Cloned with git.
	{"thinking", "", []string{"node", "node_modules/@modelcontextprotocol/server-sequential-thinking/dist/index.js"},
		"", []string{"sequentialthinking thought=N nextThoughtNeeded=false thoughtNumber=1 totalThoughts=1"},
		"README.md.js", ".git/hooks/pre-push"},
	{"fast", "lite", []string{"venv/bin/python3", "fastmcp_server.py"}, "", []string{"greet name=N"},
		"fastmcp_server.py", "json.py"},
}

// project is a folder with real servers. Its user has agreed to run them.
type project struct {
	*testing.T
	dir, home string
}

func (p *project) run(want int, argv ...string) string {
	p.Helper()
	cmd := exec.CommandContext(p.Context(), program(p.T), argv...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "HOME="+p.home, "XDG_STATE_HOME="+p.home+"/state",
		"XDG_CONFIG_HOME="+p.home+"/config", "XDG_RUNTIME_DIR=", "EXTHOST_TRUST=",
		"EXTHOST_EXTENSIONS_DEFAULTS_START_TIMEOUT=120s")
	out, err := cmd.CombinedOutput()
	exit, _ := errors.AsType[*exec.ExitError](err)
	if got := cmd.ProcessState.ExitCode(); got != want && !(want < 0 && got != console.ExitDenied) ||
		err != nil && exit == nil {
		p.Errorf("%s: %v, want %d\n%s", strings.Join(argv, " "), err, want, out)
	}
	return string(out)
}

func (p *project) git(dir string, argv ...string) {
	p.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=Ada", "-c", "user.email=ada@example.org"},
		argv...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		p.Fatalf("git %s: %v\n%s", argv, err, out)
	}
}

func (p *project) write(path, text string) {
	p.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
		p.Fatal(err)
	}
}

// install puts a server into the project.
func (p *project) install(root string, w wild) string {
	p.Helper()
	dir := filepath.Join(p.dir, "extensions", w.id)
	from := w.from
	if from == "" {
		from = w.id
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.Fatal(err)
	}
	if w.id == "thinking" || w.id == "fast" {
		origin := filepath.Join(p.home, w.id)
		p.write(filepath.Join(origin, "README.md"), "# A server\n")
		if w.id == "fast" {
			script, err := os.ReadFile("testdata/fastmcp_server.py")
			if err != nil {
				p.Fatal(err)
			}
			p.write(filepath.Join(origin, "fastmcp_server.py"), string(script))
		}
		p.git(origin, "init", "-q")
		p.git(origin, "add", ".")
		p.git(origin, "commit", "-qm", "first")
		p.git(p.dir, "clone", "-q", origin, dir)
	}
	if out, err := exec.Command("cp", "-a", filepath.Join(root, from)+"/.", dir).CombinedOutput(); err != nil {
		p.Fatalf("%v: %s", err, out)
	}
	if w.id == "repo" {
		p.git(p.dir, "init", "-q", filepath.Join(dir, "data"))
		p.git(filepath.Join(dir, "data"), "commit", "-q", "--allow-empty", "-m", "first")
	}
	var words []string
	for _, word := range w.command {
		words = append(words, fmt.Sprintf("%q", word))
	}
	p.write(filepath.Join(dir, "plugin.toml"),
		fmt.Sprintf("[plugin]\nid = %q\nversion = \"0.1.0\"\n[transport]\nprotocol = \"mcp\"\ncmd = [%s]\n%s\n",
			w.id, strings.Join(words, ", "), strings.ReplaceAll(w.env, "DIR", dir)))
	return dir
}

// TestAWeekInFastMotion starts ten real servers twenty times each. Whatever they write, nothing asks. Then somebody
// else changes each of them three times, and everything asks.
func TestAWeekInFastMotion(t *testing.T) {
	root := os.Getenv(wildVar)
	if root == "" {
		t.Skipf("NOT TESTED: real servers and their own writes: %s is not set: run .ci/wild DIR, which needs npm and "+
			"pip, and set it to DIR", wildVar)
	}
	const starts = 20
	p := &project{T: t, dir: filepath.Join(t.TempDir(), "project"), home: t.TempDir()}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	dirs := map[string]string{}
	for _, w := range wilds {
		dirs[w.id] = p.install(root, w)
	}
	p.run(0, "trust", "--all", "--yes")
	asked := 0
	for n := range starts {
		for _, w := range wilds {
			call := strings.Fields(w.calls[n%len(w.calls)])
			for i := range call {
				call[i] = strings.NewReplacer("DIR", dirs[w.id], "CREATE_TABLE",
					fmt.Sprintf("CREATE TABLE t%d (a int)", n), "=N", fmt.Sprintf("=%d", n), "-N",
					fmt.Sprintf("-%d", n), `"N"`, fmt.Sprintf(`"%d"`, n)).Replace(call[i])
			}
			want := 0
			if call[0] == "git_commit" {
				want = -1 // there may be nothing to commit
			}
			out := p.run(want, slices.Concat([]string{"call", "ext_" + w.id + "_" + call[0]}, call[1:])...)
			if strings.Contains(out, "trusted") {
				asked++
			}
		}
	}
	t.Logf("%d starts of %d servers: %d questions", starts*len(wilds), len(wilds), asked)
	if asked > 0 {
		t.Errorf("%d questions about own writes", asked)
	}
	changes, asked := 0, 0
	for _, w := range wilds {
		for _, path := range []string{w.code, w.shadow, "plugin.toml"} {
			path = filepath.Join(dirs[w.id], strings.ReplaceAll(path, "N", "evil"))
			was, _ := os.ReadFile(path)
			p.write(path, string(was)+"\n# another hand\n")
			tool, _, _ := strings.Cut(w.calls[0], " ")
			out := p.run(console.ExitDenied, "call", "ext_"+w.id+"_"+tool)
			changes++
			if bytes.Contains([]byte(out), []byte(filepath.Base(path))) {
				asked++
			} else {
				t.Errorf("%s: %s was changed: %s", w.id, path, out)
			}
			p.run(0, "trust", w.id, "--yes")
		}
	}
	t.Logf("%d changes by another hand: %d questions", changes, asked)
}
