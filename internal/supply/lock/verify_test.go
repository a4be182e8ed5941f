package lock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/internal/supply/store"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
)

const pluginText = `[plugin]
id = "weather"
version = "1.0.0"
[transport]
command = "node"
args = ["${EXTHOST_PACKAGE}/main.js"]
protocol = "mcp"
`

// bench is a directory with a lock file, one extension that runs a package, and a store.
type bench struct {
	t    testing.TB
	dir  string
	uses Uses
	tree string
}

func newBench(t testing.TB) *bench {
	home := filepath.Join(t.TempDir(), "packages")
	b := &bench{
		t:    t,
		dir:  t.TempDir(),
		uses: Uses{Path: filepath.Join(home, "directories.json"), Store: store.New(home, consent.HoldsCode)},
	}
	b.tree = b.put("1")
	b.manifest(pluginText)
	b.lock(b.dir, b.entry())
	return b
}

// put adds a tree with one file to the store.
func (b *bench) put(content string) string {
	b.t.Helper()
	tree, err := b.uses.Store.New()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := tree.Add("main.js", []byte(content)); err != nil {
		b.t.Fatal(err)
	}
	hash, _, err := b.uses.Store.Put(tree)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _, _ = b.uses.Store.Remove(hash) }) // read-only directories
	return hash
}

func (b *bench) manifest(text string) {
	b.t.Helper()
	path := filepath.Join(b.dir, "extensions", "weather", manifest.FileName)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		b.t.Fatal(err)
	}
}

// candidate discovers the extension on disk.
func (b *bench) candidate() *discovery.Candidate {
	b.t.Helper()
	found, err := discovery.Discover(b.t.Context(),
		discovery.Options{SearchPaths: []string{filepath.Join(b.dir, "extensions")}})
	if err != nil || len(found.Candidates) == 0 {
		b.t.Fatalf("%+v, %v", found, err)
	}
	return &found.Candidates[0]
}

// entry builds the lock file's entry for the extension on disk.
func (b *bench) entry() Entry {
	return Entry{
		Manifest: Sum([]byte(pluginText)),
		Files:    "x",
		Command:  CommandSum(b.candidate().Manifest),
		Source:   "npm:weather",
		Version:  "1.0.0",
		Tree:     b.tree,
		Parts:    []Part{{Name: "weather", Version: "1.0.0", URL: "https://registry.example/weather.tgz"}},
	}
}

func (b *bench) lock(dir string, e Entry) {
	b.t.Helper()
	f := &File{Extensions: map[string]Entry{"weather": e}}
	if err := f.Write(dir); err != nil {
		b.t.Fatal(err)
	}
}

// TestVerify changes one thing at a time; the refusal names it and the command to run next.
func TestVerify(t *testing.T) {
	change := func(f func(e *Entry)) func(b *bench) {
		return func(b *bench) {
			e := b.entry()
			f(&e)
			b.lock(b.dir, e)
		}
	}
	for name, tt := range map[string]struct {
		change     func(b *bench)
		kind       protocol.Kind
		want, next string
	}{
		"nothing": {func(*bench) {}, "", "", ""},
		"manifest changed": {func(b *bench) { b.manifest(pluginText + "# edited\n") }, protocol.Untrusted,
			"plugin.toml is not the one", "exthost trust weather"},
		"manifest of another hash": {change(func(e *Entry) { e.Manifest = Sum(nil) }),
			protocol.Untrusted,
			"plugin.toml is not the one", "exthost trust weather"},
		"command changed": {change(func(e *Entry) { e.Command = Sum(nil) }), protocol.Untrusted,
			"its command lines are not those", "exthost trust weather"},
		"tree changed": {func(b *bench) {
			dir, err := b.uses.Store.Path(b.tree)
			if err != nil {
				b.t.Fatal(err)
			}
			path := filepath.Join(dir, "main.js")
			if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("2"), 0o600)); err != nil {
				b.t.Fatal(err)
			}
		}, protocol.Untrusted, "are not those that were added", "exthost add --locked weather"},
		"tree missing": {func(b *bench) {
			if _, err := b.uses.Store.Remove(b.tree); err != nil {
				b.t.Fatal(err)
			}
		}, protocol.NotReady, "npm:weather 1.0.0 is not on this machine", "exthost add --locked weather"},
		"lock missing": {func(b *bench) {
			if err := os.Remove(filepath.Join(b.dir, FileName)); err != nil {
				b.t.Fatal(err)
			}
		}, protocol.Untrusted, "exthost.lock names none for it", "exthost add"},
		"lock without a package": {change(func(e *Entry) { e.Tree, e.Source, e.Parts = "", "", nil }),
			protocol.Untrusted,
			"exthost.lock names none for it", "exthost add"},
		"lock that is none": {func(b *bench) {
			if err := os.WriteFile(filepath.Join(b.dir, FileName), []byte("version = 9\n"),
				0o644); err != nil {
				b.t.Fatal(err)
			}
		}, protocol.ConfigInvalid, "version 9 is not known", ""},
	} {
		b := newBench(t)
		tt.change(b)
		l := NewPackages(b.dir, b.uses)
		dir, _, err := l.Verify(b.candidate())
		if tt.want == "" {
			if err != nil || filepath.Dir(dir) != filepath.Dir(b.uses.Path) {
				t.Errorf("%s: %q, %v", name, dir, err)
			}
			continue
		}
		if err == nil || dir != "" || protocol.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %q, %v; want %s: %q", name, dir, err, tt.kind, tt.want)
		}
		if r, ok := errors.AsType[*Refused](err); ok != (tt.next != "") || ok && !strings.HasPrefix(r.Next(), tt.next) {
			t.Errorf("%s: %+v, want the command %q", name, r, tt.next)
		}
	}
}

// TestVerifyWhileEditing: with Editing, a changed manifest is accepted and a changed package is not.
func TestVerifyWhileEditing(t *testing.T) {
	b := newBench(t)
	b.manifest(pluginText + "[transport.env]\nMODE = \"fast\"\n")
	l := NewPackages(b.dir, b.uses)
	l.Editing = true
	if dir, _, err := l.Verify(b.candidate()); dir == "" || err != nil {
		t.Errorf("%q, %v", dir, err)
	}
	if _, err := b.uses.Store.Remove(b.tree); err != nil {
		t.Fatal(err)
	}
	if dir, _, err := l.Verify(b.candidate()); protocol.KindOf(err) != protocol.NotReady {
		t.Errorf("without its files: %q, %v", dir, err)
	}
}

// TestVerifyOtherDirectory checks an extension outside of the lock file's directory, for which the lock file has
// no entry.
func TestVerifyOtherDirectory(t *testing.T) {
	b := newBench(t)
	l := NewPackages(t.TempDir(), b.uses)
	b.lock(l.dir, b.entry())
	dir, _, err := l.Verify(b.candidate())
	if dir != "" || protocol.KindOf(err) != protocol.Untrusted || !strings.Contains(err.Error(), "names none for it") {
		t.Errorf("%q, %v", dir, err)
	}
	if tree, err := l.Tree(b.candidate()); tree != "" || err != nil {
		t.Errorf("%q, %v", tree, err)
	}
	b.manifest(strings.ReplaceAll(pluginText, "${EXTHOST_PACKAGE}", "."))
	if dir, _, err := l.Verify(b.candidate()); dir != "" || err != nil {
		t.Errorf("without a package: %q, %v", dir, err)
	}
}

// TestVerifyServersOfAManifest: the MCP servers of a manifest run the package of that manifest.
func TestVerifyServersOfAManifest(t *testing.T) {
	b := newBench(t)
	b.manifest("[plugin]\nid = \"weather\"\nversion = \"1.0.0\"\n[mcp_servers.now]\ncommand = \"node\"\nargs = " +
		"[\"${EXTHOST_PACKAGE}/main.js\"]\n")
	c := b.candidate()
	if c.Owner != "weather" {
		t.Fatalf("%+v", c)
	}
	if dir, _, err := NewPackages(b.dir, b.uses).Verify(c); err == nil {
		t.Errorf("a manifest that is not locked: %q", dir)
	}
	data, err := os.ReadFile(filepath.Join(c.Dir, manifest.FileName))
	if err != nil {
		t.Fatal(err)
	}
	e := b.entry()
	e.Manifest, e.Command = Sum(data), CommandSum(c.OwnedBy)
	b.lock(b.dir, e)
	if dir, _, err := NewPackages(b.dir, b.uses).Verify(c); dir == "" || err != nil {
		t.Errorf("%q, %v", dir, err)
	}
}

// TestVerifyPlugin compares a plugin, which is a copy of its package's tree, with the lock file at every start.
func TestVerifyPlugin(t *testing.T) {
	b := newBench(t)
	const about = `{"$schema": "` + agentplugin.PluginSchema + `", "name": "reports"}`
	tree, err := b.uses.Store.New()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{agentplugin.FileName: about, "main.js": "1"} {
		if err := tree.Add(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	hash, _, err := b.uses.Store.Put(tree)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = b.uses.Store.Remove(hash) })
	dir := filepath.Join(b.dir, "extensions", "reports")
	if _, err := b.uses.Store.Exchange(dir, "", hash); err != nil {
		t.Fatal(err)
	}
	candidate := func() *discovery.Candidate {
		t.Helper()
		found, err := discovery.Discover(t.Context(), discovery.Options{SearchPaths: []string{dir}})
		if err != nil || len(found.Candidates) != 1 {
			t.Fatalf("%+v, %v", found, err)
		}
		return &found.Candidates[0]
	}
	e := b.entry()
	e.Source, e.Tree, e.Manifest = "../reports", hash, Sum([]byte(about))
	e.Command = CommandSum(candidate().OwnedBy)
	f := &File{Version: version, Extensions: map[string]Entry{"reports": e}}
	if err := f.Write(b.dir); err != nil {
		t.Fatal(err)
	}
	verify := func(want string) {
		t.Helper()
		for _, editing := range []bool{true, false} {
			l := NewPackages(b.dir, b.uses)
			l.Editing = editing
			at, _, err := l.Verify(candidate())
			switch {
			case at != "":
				t.Errorf("the package is in %s", at)
			case want == "" || editing:
				if err != nil {
					t.Error(err)
				}
			case err == nil || !strings.Contains(err.Error(), want) || protocol.KindOf(err) != protocol.Untrusted:
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	verify("")
	write("beside.js", "x") // for consent to judge
	verify("")
	write("main.js", "2")
	verify("are not those that were added: main.js")
	write("main.js", "1")
	verify("")
	write(agentplugin.FileName, about+" ")
	verify("plugin.json is not the one that exthost.lock states")
	write(agentplugin.FileName, about)
	if _, err := b.uses.Store.Remove(hash); err != nil { // a clone has no package
		t.Fatal(err)
	}
	verify("")
}
