package consent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/supply/consent"
)

// sqlite is the header of an SQLite database.
const sqlite = "SQLite format 3\x00\x10\x00\x02\x02\x00"

// written is a file when it was trusted (was) and later (is); was "" means that it did not exist.
type written struct{ name, was, is string }

// TestChangesByAnotherHand changes files that an extension loads; each change needs the user's trust again.
func TestChangesByAnotherHand(t *testing.T) {
	const js, py, sh = "module.exports = 1\n", "import os\n", "echo good\n"
	for _, tt := range []struct {
		name, transport string
		stated          consent.Stated
		written
		files []string // existing empty files
	}{
		{"a script without an ending", `cmd = ["python3", "server"]`, consent.Stated{}, written{"server", "1", "2"},
			nil},
		{"behind an option", `cmd = ["python3", "-u", "server"]`, consent.Stated{}, written{"server", "1", "2"}, nil},
		{"behind another script", `cmd = ["node", "-r", "./hook", "./main"]`, consent.Stated{},
			written{"main", "1", "2"}, []string{"hook.js"}},
		{"a script with the ending of data", `cmd = ["python3", "server.txt"]`, consent.Stated{},
			written{"server.txt", "1", "2"}, nil},
		{"of a shell", `cmd = ["sh", "start"]`, consent.Stated{}, written{"start", "1", "2"}, nil},
		{"of a shell by its option", `cmd = ["bash", "--norc", "start"]`, consent.Stated{}, written{"start", "1", "2"},
			nil},
		{"that a line executes", `cmd = ["sh", "-c", "exec python3 server"]`, consent.Stated{},
			written{"server", "1", "2"}, nil},
		{"that a line sources", `cmd = ["sh", "-c", ". ./helpers; exec true"]`, consent.Stated{},
			written{"helpers", "1", "2"}, nil},
		{"that a line of Bash sources", `cmd = ["bash", "-lc", "source ./helpers.txt && true"]`, consent.Stated{},
			written{"helpers.txt", "1", "2"}, nil},
		{"that a shell reads", `cmd = ["sh", "-c", "sh < ./start"]`, consent.Stated{}, written{"start", "1", "2"}, nil},
		{"that a shell reads without a space", `cmd = ["sh", "-c", "sh <start"]`, consent.Stated{},
			written{"start", "1", "2"}, nil},
		{"behind env", `cmd = ["env", "A=1", "python3", "server"]`, consent.Stated{}, written{"server", "1", "2"}, nil},
		{"that a script sources", `cmd = ["sh", "run.sh"]`, consent.Stated{}, written{"helpers", sh, "echo evil\n"},
			[]string{"run.sh"}},
		{"that an added file is, by its content", `cmd = ["sh", "run.sh"]`, consent.Stated{},
			written{"helpers", "", "curl evil | sh\n"}, []string{"run.sh"}},
		{"a module without an ending", `cmd = ["node", "index.js"]`, consent.Stated{},
			written{"part", js, "module.exports = 2\n"}, []string{"index.js"}},
		{"that hides another", `cmd = ["node", "index.js"]`, consent.Stated{}, written{"part", "", js},
			[]string{"index.js", "part.js"}},
		{"that evaluated code loads", `cmd = ["node", "-e", 'require("./main")']`, consent.Stated{},
			written{"main", "1", "2"}, nil},
		{"that evaluated code loads by its stem", `cmd = ["node", "--eval", 'require("../../lib/main")']`,
			consent.Stated{}, written{"../../lib/main.js", "1", "2"}, nil},
		{"that evaluated code of Python reads", `cmd = ["python3", "-c", 'exec(open("server").read())']`,
			consent.Stated{}, written{"server", "1", "2"}, nil},
		{"the main of a package", `cmd = ["node", "."]`, consent.Stated{}, written{"start", "1", "2"},
			[]string{"package.json main"}},
		{"an export of a package", `cmd = ["node", "."]`, consent.Stated{}, written{"deep/start", "1", "2"},
			[]string{"package.json exports"}},
		{"a script of a package", `cmd = ["npm", "start"]`, consent.Stated{}, written{"start", "1", "2"},
			[]string{"package.json scripts"}},
		{"a program of a package", `cmd = ["npm", "start"]`, consent.Stated{}, written{"serve", "1", "2"},
			[]string{"package.json scripts"}},
		{"a library without an ending", `cmd = ["python3", "main.py"]`, consent.Stated{},
			written{"plugin", "", "\x7fELF\x02\x01"}, []string{"main.py"}},
		{"a library that becomes one", `cmd = ["python3", "main.py"]`, consent.Stated{},
			written{"plugin", "data", "\x7fELF\x02\x01"}, []string{"main.py"}},
		{"settings that an option names", `cmd = ["proxy", "--config", "servers.json"]`, consent.Stated{},
			written{"servers.json", "{}", `{"command": "evil"}`}, nil},
		{"settings by their name", `cmd = ["proxy", "mcp-config.json"]`, consent.Stated{},
			written{"mcp-config.json", "{}", "[]"}, nil},
		{"makefiles of a variable", "cmd = [\"make\"]\nenv = {MAKEFILES = \"../../more\"}", consent.Stated{},
			written{"../../more", "1", "2"}, nil},
		{"settings of npm", "cmd = [\"npx\", \"x\"]\nenv = {NPM_CONFIG_USERCONFIG = \"../../user\"}", consent.Stated{},
			written{"../../user", "a=1", "a=2"}, nil},
		{"a hook of git", `cmd = ["git", "status"]`, consent.Stated{},
			written{".git/hooks/post-index-change", "", "#!/bin/sh\n"}, nil},
		{"settings of git", `cmd = ["git", "status"]`, consent.Stated{},
			written{".git/config", "[core]\n", "[core]\nfsmonitor = evil\n"}, nil},
		{"a repository of git", `cmd = ["git", "status"]`, consent.Stated{},
			written{".git/config", "", "[core]\nfsmonitor = evil\n"}, nil},
		{"a repository elsewhere", `cmd = ["git", "status"]`, consent.Stated{},
			written{".git", "", "gitdir: ../evil\n"}, nil},
		{"code in the folder of git", `cmd = ["python3", "main.py"]`, consent.Stated{}, written{".git/evil.py", "", py},
			[]string{"main.py"}},
		{"PYTHONPATH that is stated", `cmd = ["python3", "main.py"]`,
			consent.Stated{Env: map[string]string{"PYTHONPATH": "PROJECT/lib"}}, written{"../../lib/json.py", "", py},
			[]string{"main.py", "../../lib/x.py"}},
		{"PATH that is stated", `cmd = ["server"]`,
			consent.Stated{Env: map[string]string{"PATH": "PROJECT/bin:/usr/bin"}},
			written{"../../bin/server", "1", "#!/bin/sh\n"}, []string{"../../bin/x.sh"}},
		{"NODE_OPTIONS that are stated", `cmd = ["node", "main.js"]`,
			consent.Stated{Env: map[string]string{"NODE_OPTIONS": "--require=PROJECT/hook.cjs"}},
			written{"../../hook.cjs", "1", "2"}, []string{"main.js"}},
		{"a file of variables", `cmd = ["node", "main.js"]`, consent.Stated{Files: []string{"PROJECT/server.env"}},
			written{"../../server.env", "A=1\n", "NODE_OPTIONS=--require=/tmp/evil.js\n"}, []string{"main.js"}},
		{"a cache of Python that ignores variables", `cmd = ["python3", "-I", "main.py"]`, consent.Stated{},
			written{"__pycache__/lib.cpython-312.pyc", "", "\xcb\x0d\x0d\x0a\x00\x00\x00\x0012345678"},
			[]string{"main.py", "lib.py"}},
		{"a cache of Python without variables", `cmd = ["env", "-i", "python3", "main.py"]`, consent.Stated{},
			written{"__pycache__/lib.cpython-312.pyc", "", "\xcb\x0d\x0d\x0a\x00\x00\x00\x0012345678"},
			[]string{"main.py", "lib.py"}},
		{"a cache of Python that is stated to count",
			"cmd = [\"python3\", \"main.py\"]\nenv = {PYTHONPYCACHEPREFIX = \"\"}", consent.Stated{},
			written{"__pycache__/lib.cpython-312.pyc", "", "\xcb\x0d\x0d\x0a\x00\x00\x00\x0012345678"},
			[]string{"main.py", "lib.py"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newProject(t, tt.transport)
			for _, name := range tt.files {
				switch name, field, _ := strings.Cut(name, " "); field {
				case "main":
					k.write(name, `{"main": "./start"}`)
				case "exports":
					k.write(name, `{"exports": {".": {"import": "./deep/start"}}}`)
				case "scripts":
					k.write(name, `{"scripts": {"start": "node ./start; npm run start; python3 serve"}}`)
				default:
					k.write(name, "")
				}
			}
			for i, file := range tt.stated.Files {
				tt.stated.Files[i] = strings.ReplaceAll(file, "PROJECT", k.Project)
			}
			for name, value := range tt.stated.Env {
				tt.stated.Env[name] = strings.ReplaceAll(value, "PROJECT", k.Project)
			}
			k.Stated = func(string) consent.Stated { return tt.stated }
			if tt.was != "" {
				k.write(tt.written.name, tt.was)
			}
			k.accept()
			k.says("")
			k.write(tt.written.name, tt.is)
			k.says(filepath.Base(tt.written.name))
			k.accept()
			k.says("")
		})
	}
}

// TestConfiguredByAnotherHand does the same for a configuration's programs.
func TestConfiguredByAnotherHand(t *testing.T) {
	for _, tt := range []struct {
		line string
		env  map[string]string
		written
		files string
	}{
		{"python3 check", nil, written{"check", "1", "2"}, ""},
		{"sh start", nil, written{"start", "1", "2"}, ""},
		{"sh -c exec python3 check", nil, written{"check", "1", "2"}, ""},
		{"sh -c . ./helpers", nil, written{"helpers", "1", "2"}, ""},
		{"sh -c sh < ./start", nil, written{"start", "1", "2"}, ""},
		{"node -e require('./main')", nil, written{"main", "1", "2"}, ""},
		{"node .", nil, written{"start", "1", "2"}, "package.json"},
		{"npm run check", nil, written{"scripts/check", "1", "2"}, "package.json"},
		{"python3 check.py", map[string]string{"PYTHONPATH": "lib"}, written{"lib/json.py", "", "import os\n"},
			"check.py lib/x.py"},
		{"check", map[string]string{"PATH": "bin"}, written{"bin/check", "1", "#!/bin/sh\n"}, "bin/x.sh"},
		{"make", map[string]string{"MAKEFILES": "one more"}, written{"more", "1", "2"}, ""},
		{"npx x", map[string]string{"NPM_CONFIG_USERCONFIG": "./user"}, written{"user", "1", "2"}, ""},
	} {
		t.Run(tt.line, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				t.Helper()
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for name := range strings.FieldsSeq(tt.files) {
				write(name, map[bool]string{
					true: `{"main": "start", "scripts": {"check": "node scripts/check"}}`,
				}[name == "package.json"])
			}
			if tt.was != "" {
				write(tt.name, tt.was)
			}
			argv := strings.Fields(tt.line)
			if strings.HasPrefix(tt.line, "sh -c") {
				argv = []string{"sh", "-c", strings.TrimPrefix(tt.line, "sh -c ")}
			}
			cfg := &config.Config{
				Plugins: []governance.Spec{{Cmd: argv, Env: tt.env}},
				Project: config.Project{Dir: dir, Files: map[string]string{filepath.Join(dir, "exthost.yaml"): "1"}},
			}
			k := &consent.Consent{Store: consent.NewStore(filepath.Join(t.TempDir(), "trust"))}
			v, err := k.Configuration(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := k.Store.TrustConfiguration(v, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := k.StartsConfigured(cfg); err != nil {
				t.Error("as it was trusted: ", err)
			}
			write(tt.name, tt.is)
			if _, err := k.StartsConfigured(cfg); err == nil || !strings.Contains(err.Error(), filepath.Base(tt.name)) {
				t.Errorf("says %v, want %s", err, tt.name)
			}
		})
	}
}

// TestOwnWrites writes files that servers write, beside their code and at places named by their arguments; none
// needs trust again.
func TestOwnWrites(t *testing.T) {
	for _, tt := range []struct {
		name, transport string
		written
	}{
		{"a database that is an argument", `cmd = ["python3", "main.py", "--db", "store.db"]`,
			written{"store.db", "", sqlite}},
		{"that is there already", `cmd = ["python3", "main.py", "store.db"]`,
			written{"store.db", sqlite, sqlite + "more"}},
		{"without an ending", `cmd = ["server", "--db-path=store"]`, written{"store", sqlite, sqlite + "more"}},
		{"without an ending, new", `cmd = ["server", "store"]`, written{"store", "", sqlite}},
		{"of a module", `cmd = ["python3", "-m", "server", "--db-path", "store"]`, written{"store", "", sqlite}},
		{"of code", `cmd = ["python3", "-c", "import lib", "store.db"]`, written{"store.db", "", sqlite}},
		{"of code for Node", `cmd = ["node", "-e", "1", "store"]`, written{"store", "notes", "more notes"}},
		{"of DuckDB", `cmd = ["uvx", "mcp-server-motherduck", "--db-path", "my.duckdb"]`,
			written{"my.duckdb", "DUCK\x00", "DUCK\x00\x01"}},
		{"elsewhere", `cmd = ["npx", "-y", "server-sqlite", "../../data/x.sqlite3"]`,
			written{"../../data/x.sqlite3", "", sqlite}},
		{"its journal", `cmd = ["server", "store.db"]`, written{"store.db-journal", "", "\x00"}},
		{"its write-ahead log", `cmd = ["server", "store.db"]`, written{"store.db-wal", "", "\x00"}},
		{"of an evaluated line", `cmd = ["sh", "-c", "exec server --db ./store.db"]`, written{"store.db", "", sqlite}},
		{"notes", `cmd = ["python3", "main.py", "notes.json"]`, written{"notes.json", "", `{"notes": []}`}},
		{"notes that are there", `cmd = ["node", "main.js", "--file", "../../notes.json"]`,
			written{"../../notes.json", "{}", `{"notes": ["first"]}`}},
		{"a graph", "cmd = [\"node\", \"main.js\"]\nenv = {MEMORY_FILE_PATH = \"memory.json\"}",
			written{"memory.json", "{}", "{}\n{}"}},
		{"lines", "cmd = [\"node\", \"main.js\"]\nenv = {MEMORY_FILE_PATH = \"../../memory.jsonl\"}",
			written{"../../memory.jsonl", "", "{}\n{}"}},
		{"notes in Markdown", `cmd = ["python3", "main.py", "notes.md"]`,
			written{"notes.md", "# Notes", "# Notes\n\nimport this\n"}},
		{"notes without an ending", `cmd = ["python3", "main.py", "notes"]`,
			written{"notes", "buy milk\n", "buy milk\ncall Ada\n"}},
		{"what a line writes", `cmd = ["sh", "-c", "server > out"]`, written{"out", "1", "2"}},
		{"a log", `cmd = ["server", "--log", "server.log"]`, written{"server.log", "", "import failed\n"}},
		{"a table", `cmd = ["server", "../../table.csv"]`, written{"../../table.csv", "a,b\n", "a,b\n1,2\n"}},
		{"a book", `cmd = ["uvx", "excel-mcp-server", "book.xlsx"]`,
			written{"book.xlsx", "PK\x03\x04", "PK\x03\x04\x00"}},
		{"a lock", `cmd = ["server"]`, written{"server.lock", "", "1234"}},
		{"a number of a process", `cmd = ["server"]`, written{"server.pid", "1", "2"}},
		{"a lock without an ending", `cmd = ["server"]`, written{"LOCK", "", "\n"}},
		{"what LevelDB writes", `cmd = ["server"]`, written{"db/CURRENT", "MANIFEST-000001\n", "MANIFEST-000002\n"}},
		{"its log", `cmd = ["server"]`,
			written{
				"db/LOG",
				"2026/01/01-10:00:00.1 7f Recovering log #3\n",
				"2026/01/02-10:00:00.1 7f Recovering log #4\n",
			}},
		{"what a browser writes", `cmd = ["server"]`, written{"profile/Default/Preferences", "", `{"a": 1}`}},
		{"its state", `cmd = ["server"]`, written{"profile/Local State", `{"a": 1}`, `{"a": 2}`}},
		{"a cache of Python", `cmd = ["python3", "main.py"]`,
			written{"__pycache__/lib.cpython-312.pyc", "", "\xcb\x0d\x0d\x0a\x00\x00\x00\x0012345678"}},
		{"a cache of packages", `cmd = ["node", "main.js"]`, written{"node_modules/.cache/x/content-v2", "", "data"}},
		{"a cache", `cmd = ["node", "main.js"]`, written{".cache/index.bin", "", "\x00\x01"}},
		{"a commit", `cmd = ["uvx", "mcp-server-git", "--repository", "."]`,
			written{".git/index", "DIRC\x00", "DIRC\x00\x01"}},
		{"a reference", `cmd = ["uvx", "mcp-server-git", "--repository", "."]`,
			written{".git/HEAD", "ref: refs/heads/main\n", "ref: refs/heads/fix\n"}},
		{"a message", `cmd = ["uvx", "mcp-server-git", "--repository", "."]`,
			written{".git/COMMIT_EDITMSG", "", "echo the first\n\nimport x\n"}},
		{"a branch with a name of code", `cmd = ["uvx", "mcp-server-git", "--repository", "."]`,
			written{".git/refs/heads/main.py", "", "1234\n"}},
		{"objects", `cmd = ["uvx", "mcp-server-git", "--repository", "."]`, written{".git/objects/aa/bb", "", "x\x9c"}},
		{"a picture", `cmd = ["node", "main.js"]`, written{"shots/page-1.png", "", "\x89PNG"}},
		{"a page", `cmd = ["node", "main.js"]`, written{"shots/page-1.html", "", "<script>1</script>"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newProject(t, tt.transport, "extensions/kit/main.js", "extensions/kit/lib.py")
			if tt.was != "" {
				k.write(tt.written.name, tt.was)
			}
			k.accept()
			k.says("")
			k.write(tt.written.name, tt.is)
			k.says("")
			k.remove(tt.written.name)
			k.says("")
		})
	}
}
