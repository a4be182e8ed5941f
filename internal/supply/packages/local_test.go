package packages

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/store"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/registrytest"
)

// repository is a git repository served over http on this machine.
type repository struct {
	t        *testing.T
	dir, url string
}

func newRepository(t *testing.T) *repository {
	processtest.Needs(t, "git")
	r := &repository{t: t, dir: filepath.Join(t.TempDir(), "weather")}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "--quiet")
	r.git("config", "uploadpack.allowAnySHA1InWant", "true")
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(&cgi.Handler{
		Path: program,
		Args: []string{"http-backend"},
		Env: []string{
			"GIT_PROJECT_ROOT=" + filepath.Dir(r.dir),
			"GIT_HTTP_EXPORT_ALL=1",
			"GIT_CONFIG_COUNT=1",
			"GIT_CONFIG_KEY_0=safe.directory",
			"GIT_CONFIG_VALUE_0=*",
		},
	})
	t.Cleanup(s.Close)
	r.url = s.URL + "/weather/.git"
	return r
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{
		"-c",
		"user.name=a",
		"-c",
		"user.email=a@example.org",
		"-c",
		"commit.gpgsign=false",
	}, args...)...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *repository) commit(files map[string]string) string {
	r.t.Helper()
	for name, text := range files {
		writeFile(r.t, filepath.Join(r.dir, name), text)
	}
	r.git("add", "-A")
	r.git("commit", "--quiet", "-m", "one")
	return r.git("rev-parse", "HEAD")
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

var nodeProgram = map[string]string{
	"package.json": `{"name": "weather", "version": "1.0.0", "bin": "index.js"}`,
	"index.js":     "console.log('sun')\n",
}

// workbench is an installer with its own store, which accepts nothing younger than three days.
type workbench struct{ *Installer }

func newWorkbench(t testing.TB) workbench {
	dir := t.TempDir()
	b := workbench{
		&Installer{Store: store.New(filepath.Join(dir, "store"), consent.HoldsCode), Dir: dir, MinAge: 72 * hour},
	}
	t.Cleanup(func() { // read-only directories
		hashes, _ := b.Store.Trees()
		for _, h := range hashes {
			if _, err := b.Store.Remove(h); err != nil {
				t.Error(err)
			}
		}
	})
	return b
}

// setenv sets a variable for the programs; it overrides an earlier value of the name.
func (b workbench) setenv(name, value string) {
	b.Installer.Environ = append(b.Installer.Environ, name+"="+value)
}

func (b workbench) add(t testing.TB, source string) (*Package, error) {
	t.Helper()
	s, err := Parse(source)
	if err != nil {
		return nil, err
	}
	return b.Add(context.Background(), s)
}

// refused expects an error with the text want, and an empty store.
func (b workbench) refused(t *testing.T, p *Package, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%+v, %v; want %q", p, err, want)
	}
	if entries, _ := os.ReadDir(filepath.Join(b.Dir, "store")); len(entries) > 0 {
		t.Errorf("left in the store: %v", entries)
	}
}

// locked returns the lock file entry of a package.
func locked(p *Package) lock.Entry {
	return lock.Entry{
		Source:  p.Source.String(),
		Program: p.Source.Program,
		Version: p.Version,
		Tree:    p.Tree,
		Parts:   p.Parts,
	}
}

// TestGit resolves a tag to its commit, and fetches that commit after the tag has moved.
func TestGit(t *testing.T) {
	processtest.Leaks(t)
	r, i := newRepository(t), newWorkbench(t)
	commit := r.commit(nodeProgram)
	r.git("tag", "v1")
	s, err := Parse("git+" + r.url + "@v1")
	if err != nil {
		t.Fatal(err)
	}
	p, err := i.Add(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if p.Version != commit || p.Parts[0].Version != commit || p.Run.Args[0] != Root+"/index.js" {
		t.Errorf("%+v", p)
	}
	r.commit(map[string]string{"index.js": "evil()"})
	r.git("tag", "--force", "v1")
	if _, err := i.Store.Remove(p.Tree); err != nil {
		t.Fatal(err)
	}
	e := locked(p)
	if _, err := i.Fetch(t.Context(), e); err != nil {
		t.Error(err)
	}
	if _, err := i.Store.Remove(p.Tree); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(p *lock.Part){
		"a moved tag in the lock": func(p *lock.Part) { p.Version = "v1" },
		"an option for a commit":  func(p *lock.Part) { p.Version = "--upload-pack=touch" },
		"a program for a place":   func(p *lock.Part) { p.URL = "git+ext::sh -c evil" },
		"a local repository":      func(p *lock.Part) { p.URL = "git+file://" + r.dir },
		"a host of the network":   func(p *lock.Part) { p.URL = "git+https://10.0.0.1/weather" },
	} {
		e.Parts = []lock.Part{p.Parts[0]}
		change(&e.Parts[0])
		if _, err := i.Fetch(t.Context(), e); err == nil {
			t.Errorf("%s was fetched", name)
		}
	}
}

// TestAttacksGit: anything but regular files in a repository is refused, and none of it runs.
func TestAttacksGit(t *testing.T) {
	for name, tt := range map[string]struct {
		attack func(r *repository)
		want   string
	}{
		"submodule": {func(r *repository) {
			head := r.commit(nodeProgram)
			r.git("update-index", "--add", "--cacheinfo", "160000,"+head+",sub")
			r.git("commit", "--quiet", "-m", "sub")
		}, "is a submodule"},
		"symbolic link": {func(r *repository) {
			if err := os.Symlink("/etc/passwd", filepath.Join(r.dir, "link")); err != nil {
				t.Fatal(err)
			}
			r.commit(nodeProgram)
		}, "symbolic link"},
		"filter": {func(r *repository) {
			r.commit(map[string]string{".gitattributes": "* filter=evil\n", "index.js": "x"})
		}, "package.json"},
		"program": {func(r *repository) {
			r.commit(map[string]string{"package.json": `{"name": "x", "bin": "../../sh"}`})
		}, "outside of the package"},
		"too large": {func(r *repository) {
			big := filepath.Join(r.dir, "big")
			writeFile(t, big, "")
			if err := os.Truncate(big, maxOutput); err != nil { // and some bytes of the tar
				t.Fatal(err)
			}
			r.commit(nodeProgram)
		}, "are over 64 MiB; exthost add FOLDER"},
		"broken": {func(r *repository) {
			r.commit(map[string]string{"package.json": "{\n  \"name\": \"x\",\n  \"bin\":\n}\n"})
		}, "package.json:4: invalid character"},
		"gone": {func(r *repository) {
			r.commit(nodeProgram)
			r.git("checkout", "--quiet", "-b", "other")
			r.git("branch", "-D", "main")
		}, "git failed"},
	} {
		t.Run(name, func(t *testing.T) {
			r, i := newRepository(t), newWorkbench(t)
			r.git("checkout", "--quiet", "-b", "main")
			tt.attack(r)
			i.Environ = append(os.Environ(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=filter.evil.smudge",
				"GIT_CONFIG_VALUE_0=touch "+filepath.Join(i.Dir, "ran"))
			s, err := Parse("git+" + r.url + "@main")
			if err != nil {
				t.Fatal(err)
			}
			if p, err := i.Add(t.Context(), s); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v; want %q", p, err, tt.want)
			}
			if _, err := os.Stat(filepath.Join(i.Dir, "ran")); err == nil {
				t.Error("a filter ran")
			}
		})
	}
}

// TestBundle runs bundles with node and python; user configuration becomes variables.
func TestBundle(t *testing.T) {
	good := `{"name": "notes", "version": "1.2.3", "server": {"type": "node", "mcp_config": {"command": "node", "args": ["${__dirname}/server/index.js", "${user_config.dir}"],
		"env": {"KEY": "${user_config.api_key}", "MODE": "${user_config.mode}"}}}, "user_config": {"dir": {"required": true}, "api_key": {"required": true}, "mode": {"default": "fast"}}}`
	for name, tt := range map[string]struct{ manifest, want string }{
		"good": {good, ""},
		"another program": {strings.Replace(good, `"command": "node"`, `"command": "sh"`, 1),
			"node, python and a program of the bundle"},
		"fetched at each start": {strings.Replace(good, `"command": "node"`, `"command": "npx"`, 1),
			"which no hash locks"},
		"uv": {strings.Replace(good, `"type": "node"`, `"type": "uv"`, 1),
			"exthost add npm:NAME or pypi:NAME"},
		"another system": {strings.Replace(good, `"version"`,
			`"compatibility": {"platforms": ["plan9"]}, "version"`, 1), "it is made for plan9"},
		"binary": {strings.Replace(good, `"type": "node"`, `"type": "binary"`, 1),
			"its program node is not in the bundle"},
		"path out of it": {strings.Replace(good, "server/index.js", "../../x.js", 1), "leads out of the bundle"},
		"unknown placeholder": {strings.Replace(good, "${user_config.dir}", "${SECRET_TOKEN}", 1),
			"${SECRET_TOKEN} is not known"},
		"variable by default":  {strings.Replace(good, `"fast"`, `"${SECRET_TOKEN}"`, 1), ""},
		"unclosed placeholder": {strings.Replace(good, "${user_config.dir}", "${SECRET", 1), "is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newWorkbench(t)
			path := filepath.Join(i.Dir, "notes.mcpb")
			writeFile(t, path, string(registrytest.Zip(registrytest.Entry{Name: "manifest.json", Body: tt.manifest},
				registrytest.Entry{Name: "server/index.js", Body: "1"})))
			s, err := Parse(path)
			if err != nil {
				t.Fatal(err)
			}
			p, err := i.Add(t.Context(), s)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%+v, %v; want %q", p, err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.Source.Name != "./notes.mcpb" || p.Version != "1.2.3" ||
				p.Run.Args[0] != Root+"/server/index.js" || p.Run.Env["KEY"] != "${API_KEY}" ||
				strings.Contains(p.Run.Env["MODE"], "SECRET") {
				t.Errorf("%+v", p)
			}
			e := locked(p)
			if _, err := i.Store.Remove(p.Tree); err != nil {
				t.Fatal(err)
			}
			if _, err := i.Fetch(t.Context(), e); err != nil {
				t.Error(err)
			}
			if _, err := i.Store.Remove(p.Tree); err != nil {
				t.Fatal(err)
			}
			writeFile(t, path, string(registrytest.Zip(registrytest.Entry{
				Name: "manifest.json",
				Body: tt.manifest + " ",
			})))
			if _, err := i.Fetch(t.Context(), e); err == nil ||
				!strings.Contains(err.Error(), "its content has the hash") {
				t.Errorf("a changed bundle: %v", err)
			}
		})
	}
}

// TestTooLargeBundle: an archive that is too large is refused as that, and not read.
func TestTooLargeBundle(t *testing.T) {
	for _, name := range []string{"big.mcpb", "big.tar.gz"} {
		b := newWorkbench(t)
		path := filepath.Join(b.Dir, name)
		writeFile(t, path, "")
		if err := os.Truncate(path, store.MaxArchive+1); err != nil {
			t.Fatal(err)
		}
		p, err := b.add(t, path)
		b.refused(t, p, err, "the archive is over 256 MiB")
		fetched := b.fetchLocal(t.Context(), lock.Part{URL: name})
		b.refused(t, nil, fetched.err, "the archive is over 256 MiB")
	}
}

// TestDefaultsOfABundle: defaults of the user configuration apply, whatever their type.
func TestDefaultsOfABundle(t *testing.T) {
	const form = `{"name": "notes", "version": "1.2.3", "server": {"type": "node", "mcp_config": {"command": "node", "args": ["${__dirname}/index.js", "${user_config.it}"]}}, "user_config": {"it": {"default": %s}}}`
	for value, want := range map[string]string{
		`"fast"`:      "${IT:-fast}",
		`8080`:        "${IT:-8080}",
		`1e6`:         "${IT:-1000000}",
		`0.5`:         "${IT:-0.5}",
		`false`:       "${IT:-false}",
		`null`:        "${IT:-}",
		`["a", "b"]`:  "${IT}",
		`"${HOME}/x"`: "${IT}",
	} {
		i := newWorkbench(t)
		path := filepath.Join(i.Dir, "notes.mcpb")
		writeFile(t, path, string(registrytest.Zip(registrytest.Entry{
			Name: "manifest.json",
			Body: fmt.Sprintf(form, value),
		}, registrytest.Entry{Name: "index.js", Body: "1"})))
		p, err := i.add(t, path)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Run.Args[1]; got != want || (len(p.Run.Asks) > 0) != (want == "${IT}") {
			t.Errorf("%s: %s, asks for %v; want %s", value, got, p.Run.Asks, want)
		}
	}
}

// TestBinaryBundle runs a bundle's own program with this platform's overrides, even if the archive does not mark
// it executable.
func TestBinaryBundle(t *testing.T) {
	system := goruntime.GOOS
	if system == "windows" {
		t.Skip("the program is a script of a shell")
	}
	const form = `{"name": "notes", "version": "1.2.3", "server": {"type": "binary", "mcp_config": {"command": %q, "args": ["general"], "env": {"A": "1"}, "platform_overrides": {"plan9": {"command": "server/none"}, %q: %s}}}}`
	for name, tt := range map[string]struct{ command, override, want string }{
		"relative":         {"server/notes", `{}`, ""},
		"dot":              {"./server/notes", `{}`, ""},
		"by its directory": {"${__dirname}/server/notes", `{}`, ""},
		"for this system":  {"server/none", `{"command": "server/notes", "args": ["own"], "env": {}}`, ""},
		"not there":        {"server/notes", `{"command": "server/none"}`, "is not in the bundle"},
		"a folder":         {"server", `{}`, "is not in the bundle"},
		"of the system":    {"/bin/sh", `{}`, "lies outside of the bundle"},
		"on PATH":          {"sh", `{}`, "is not in the bundle"},
		"outside":          {"${__dirname}/../../bin/sh", `{}`, "lies outside of the bundle"},
		"by a variable":    {"${HOME}/x", `{}`, "lies outside of the bundle"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newWorkbench(t)
			path := filepath.Join(i.Dir, "notes.mcpb")
			writeFile(t, path, string(registrytest.Zip(registrytest.Entry{
				Name: "manifest.json",
				Body: fmt.Sprintf(form, tt.command, system, tt.override),
			}, registrytest.Entry{Name: "server/notes", Body: "#!/bin/sh\necho $1\n"})))
			p, err := i.add(t, path)
			if tt.want != "" {
				i.refused(t, p, err, tt.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.Run.Command != Root+"/server/notes" {
				t.Errorf("%+v", p.Run)
			}
			run := func() {
				t.Helper()
				dir, _, err := i.Store.Verify(p.Tree)
				if err != nil {
					t.Fatal(err)
				}
				want := "general\n"
				if tt.override != "{}" {
					want = "own\n"
				}
				if out, err := exec.Command(strings.Replace(p.Run.Command, Root, dir, 1),
					p.Run.Args...).Output(); err != nil || string(out) != want {
					t.Errorf("%q, %v", out, err)
				}
			}
			run()
			if _, err := i.Store.Remove(p.Tree); err != nil {
				t.Fatal(err)
			}
			if _, err := i.Fetch(t.Context(), locked(p)); err != nil {
				t.Fatal(err)
			}
			run()
		})
	}
}

// TestFolder copies a folder, also one that a link names, into the store. It refuses one with a link out of it.
func TestFolder(t *testing.T) {
	i := newWorkbench(t)
	dir := filepath.Join(i.Dir, "weather")
	for name, text := range nodeProgram {
		writeFile(t, filepath.Join(dir, name), text)
	}
	p, err := i.Add(t.Context(), Source{Kind: Folder, Name: dir})
	if err != nil {
		t.Fatal(err)
	}
	if p.Source.Name != "./weather" || p.Run.Command != "node" {
		t.Errorf("%+v", p)
	}
	if err := os.Symlink("index.js", filepath.Join(dir, "main.js")); err != nil {
		t.Skip(err)
	}
	link := dir + "-link"
	if err := os.Symlink("weather", link); err != nil {
		t.Fatal(err)
	}
	if p, err = i.Add(t.Context(), Source{Kind: Folder, Name: link}); err != nil || p.Source.Name != "./weather-link" {
		t.Fatalf("%+v, %v", p, err)
	}
	at, _, err := i.Store.Verify(p.Tree)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(filepath.Join(at, "main.js"))
	if err != nil || !info.Mode().IsRegular() {
		t.Errorf("a link within it: %v, %v", info, err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Add(t.Context(), Source{Kind: Folder, Name: dir}); err == nil ||
		!strings.Contains(err.Error(), "which is not in the package") {
		t.Errorf("a link: %v", err)
	}
}

// TestRegistry: the package that the MCP registry names must name the server too.
func TestRegistry(t *testing.T) {
	one := left("1.0.0")
	one.JSON = map[string]any{"bin": "index.js", "mcpName": "io.github.acme/left"}
	l := newLab(t, one)
	answers := map[string]string{
		"io.github.acme/left":   `{"server": {"name": "io.github.acme/left", "packages": [{"registryType": "oci", "identifier": "x"}, {"registryType": "npm", "identifier": "left", "version": "1.0.0", "transport": {"type": "stdio"}, "environmentVariables": [{"name": "LEFT_KEY", "isRequired": true}]}]}}`,
		"io.github.evil/left":   `{"server": {"name": "io.github.evil/left", "packages": [{"registryType": "npm", "identifier": "left", "version": "1.0.0"}]}}`,
		"io.github.evil/twin":   `{"server": {"name": "io.github.acme/left", "packages": [{"registryType": "npm", "identifier": "left", "version": "1.0.0"}]}}`,
		"io.github.evil/image":  `{"server": {"name": "io.github.evil/image", "packages": [{"registryType": "oci", "identifier": "x"}]}}`,
		"io.github.evil/option": `{"server": {"name": "io.github.evil/option", "packages": [{"registryType": "npm", "identifier": "--registry=http://evil"}]}}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v0.1/servers/"), "/versions/latest")
		if answers[name] == "" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(answers[name]))
	}))
	t.Cleanup(s.Close)
	l.MCPRegistry = s.URL
	for name, want := range map[string]string{
		"io.github.acme/left":   "",
		"io.github.evil/left":   "does not say that it is this server",
		"io.github.evil/twin":   `the registry answers about "io.github.acme/left"`,
		"io.github.evil/image":  "names no package of npm or PyPI",
		"io.github.evil/option": "no package",
		"io.github.evil/none":   "404",
	} {
		p, err := l.Add(t.Context(), Source{Kind: Registry, Name: name})
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %+v, %v; want %q", name, p, err, want)
		case want == "" && (err != nil || p.Source.Name != name || len(p.Run.Asks) != 1 || p.Run.Asks[0] != "LEFT_KEY"):
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}
