package packages

import (
	"archive/tar"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/supply/download"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/registrytest"
)

const hour = time.Hour

// lab is a test registry, a store, and an npm that uses only them.
type lab struct {
	*registrytest.NPM
	workbench
}

func newLab(t testing.TB, releases ...registrytest.Release) *lab {
	processtest.Optional(t)
	processtest.Needs(t, "npm", "node")
	l := &lab{registrytest.NewNPM(t, releases...), newWorkbench(t)}
	l.Installer.Environ = os.Environ()
	for name, value := range l.NPM.Environ(l.Dir) {
		l.setenv(name, value)
	}
	return l
}

// weather is a package with a program and a dependency.
func weather(version string) registrytest.Release {
	return registrytest.Release{
		Name:    "@acme/mcp-weather",
		Version: version,
		JSON: map[string]any{
			"bin":          map[string]string{"mcp-weather": "./index.js"},
			"dependencies": map[string]string{"left": "^1"},
			"description":  "Tells the weather.",
		},
		Files: map[string]string{"index.js": "#!/usr/bin/env node\nrequire('left')\n"},
	}
}

func left(version string) registrytest.Release {
	return registrytest.Release{
		Name:    "left",
		Version: version,
		Files:   map[string]string{"index.js": "module.exports = 1\n"},
	}
}

// TestAddNPM adds an npm package with its dependencies, and fetches it again from its lock file entry.
func TestAddNPM(t *testing.T) {
	processtest.Leaks(t)
	l := newLab(t, weather("1.0.0"), weather("1.2.0"), weather("2.0.0"), left("1.0.0"))
	p, err := l.add(t, "npm:@acme/mcp-weather@^1")
	if err != nil {
		t.Fatal(err)
	}
	if p.Version != "1.2.0" || len(p.Parts) != 2 || p.Parts[0].Name != "@acme/mcp-weather" ||
		p.Parts[1].Path != "node_modules/left" {
		t.Errorf("%+v", p)
	}
	if want := Root + "/node_modules/@acme/mcp-weather/index.js"; p.Run.Command != "node" ||
		p.Run.Args[0] != want {
		t.Errorf("runs %s %v, want node %s", p.Run.Command, p.Run.Args, want)
	}
	dir, _, err := l.Store.Verify(p.Tree)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("node",
		filepath.Join(dir, "node_modules/@acme/mcp-weather/index.js")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	e := locked(p)
	if _, err := l.Store.Remove(p.Tree); err != nil {
		t.Fatal(err)
	}
	l.Publish(weather("1.3.0"))
	if _, err := l.Fetch(context.Background(), e); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Store.Verify(p.Tree); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(l.Dir, "store", "new-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestResolve resolves sources without downloading archives or adding to the store.
func TestResolve(t *testing.T) {
	l := newLab(t, weather("1.0.0"), left("1.0.0"))
	p, err := l.add(t, "npm:@acme/mcp-weather")
	if err != nil {
		t.Fatal(err)
	}
	e := locked(p)
	resolve := func(want string, same bool) {
		t.Helper()
		now, err := l.Resolve(t.Context(), p.Source)
		if err != nil || now.Version != want || now.Same(e) != same {
			t.Errorf("%+v, %v; want %s, the same: %v", now, err, want, same)
		}
		if trees, err := l.Store.Trees(); err != nil || len(trees) != 1 {
			t.Errorf("%v, %v", trees, err)
		}
	}
	resolve("1.0.0", true)
	for _, r := range []registrytest.Release{left("1.1.0"), weather("2.0.0")} {
		r.Served = []byte("not to be downloaded")
		l.Publish(r)
		resolve(r.Version[:1]+".0.0", false)
	}
	folder := filepath.Join(l.Dir, "folder")
	for name, text := range nodeProgram {
		writeFile(t, filepath.Join(folder, name), text)
	}
	if p, err = l.Add(t.Context(), Source{Kind: Folder, Name: folder}); err != nil {
		t.Fatal(err)
	}
	for change, same := range map[string]bool{nodeProgram["index.js"]: true, "evil()": false} {
		writeFile(t, filepath.Join(folder, "index.js"), change)
		now, err := l.Resolve(t.Context(), Source{Kind: Folder, Name: folder})
		if err != nil || now.Same(locked(p)) != same {
			t.Errorf("a folder: %+v, %v; want the same: %v", now, err, same)
		}
	}
}

// TestMinAge: npm chooses versions that are old enough; single packages can be exempt.
func TestMinAge(t *testing.T) {
	young := weather("1.9.0")
	young.Age = hour
	l := newLab(t, weather("1.0.0"), young, left("1.0.0"))
	if p, err := l.add(t, "npm:@acme/mcp-weather"); err != nil || p.Version != "1.0.0" {
		t.Errorf("%+v, %v; want 1.0.0", p, err)
	}
	l.AgeOf = map[string]time.Duration{"@acme/mcp-weather": 0}
	if p, err := l.add(t, "npm:@acme/mcp-weather"); err != nil || p.Version != "1.9.0" {
		t.Errorf("%+v, %v; want 1.9.0", p, err)
	}
}

// TestInstallScripts: only the install scripts of packages in AllowScripts run.
func TestInstallScripts(t *testing.T) {
	one := left("1.0.0")
	one.JSON = map[string]any{
		"scripts": map[string]string{"postinstall": "node -e \"require('fs').writeFileSync('made.js', '1')\""},
	}
	l := newLab(t, weather("1.0.0"), one)
	p, err := l.add(t, "npm:@acme/mcp-weather")
	if err != nil {
		t.Fatal(err)
	}
	made := func(p *Package) bool {
		dir, _, err := l.Store.Verify(p.Tree)
		if err != nil {
			t.Fatal(err)
		}
		_, err = os.Stat(filepath.Join(dir, "node_modules/left/made.js"))
		return err == nil
	}
	if made(p) || len(p.Held) != 1 || p.Held[0] != "left" || len(p.Scripts) != 0 {
		t.Errorf("a script ran, or nobody says that it did not: %+v", p)
	}
	l.AllowScripts = []string{"left"}
	if p, err = l.add(t, "npm:@acme/mcp-weather"); err != nil {
		t.Fatal(err)
	}
	if !made(p) || len(p.Scripts) != 1 || len(p.Held) != 0 {
		t.Errorf("the script that was allowed did not run: %+v", p)
	}
	l.AllowScripts = []string{"@acme/mcp-weather"}
	if _, err = l.add(t, "npm:@acme/mcp-weather"); err == nil || !strings.Contains(err.Error(), "has install scripts") {
		t.Errorf("a name without scripts: %v", err)
	}
}

// TestInstallScriptsOfOthers: allowing a package does not allow another one in a folder of that name, and a
// package cannot change how its dependencies' scripts run.
func TestInstallScriptsOfOthers(t *testing.T) {
	writes := func(name, version string) registrytest.Release {
		return registrytest.Release{
			Name:    name,
			Version: version,
			JSON: map[string]any{
				"scripts": map[string]string{"postinstall": "node -e \"require('fs').writeFileSync('made.js', '1')\""},
			},
		}
	}
	one := weather("1.0.0")
	one.JSON["dependencies"] = map[string]string{"left": "npm:evil@2", "needs-left": "1"}
	l := newLab(t, one, writes("left", "1.0.0"), writes("evil", "2.0.0"),
		registrytest.Release{
			Name:    "needs-left",
			Version: "1.0.0",
			JSON:    map[string]any{"dependencies": map[string]string{"left": "1"}},
		})
	l.AllowScripts = []string{"left"}
	p, err := l.add(t, "npm:@acme/mcp-weather")
	if err != nil {
		t.Fatal(err)
	}
	dir, _, err := l.Store.Verify(p.Tree)
	if err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]bool{
		"node_modules/left":                         false,
		"node_modules/needs-left/node_modules/left": true,
	} {
		if _, err := os.Stat(filepath.Join(dir, folder, "made.js")); (err == nil) != want {
			t.Errorf("the script in %s ran: %v, want %v", folder, err == nil, want)
		}
	}
	folder := filepath.Join(l.Dir, "folder")
	for name, text := range map[string]string{
		"package.json": `{"name": "folder", "bin": "index.js", "dependencies": {"left": "1"}}`,
		"index.js":     "",
		"shell":        "#!/bin/sh\n",
		".npmrc":       "script-shell=./shell\n",
	} {
		writeFile(t, filepath.Join(folder, name), text)
	}
	if p, err := l.Add(t.Context(), Source{Kind: Folder, Name: folder}); err == nil ||
		!strings.Contains(err.Error(), ".npmrc") {
		t.Errorf("a package with a shell for install scripts: %+v, %v", p, err)
	}
}

func ptr(s string) *string { return &s }

// TestAttacksArchive tries attacks by an archive or its URL. Each is refused with its reason and leaves no tree.
func TestAttacksArchive(t *testing.T) {
	own := registrytest.Entry{Name: "package/package.json", Body: `{"name":"left","version":"1.0.0","bin":"index.js"}`}
	with := func(entries ...registrytest.Entry) registrytest.Release {
		return registrytest.Release{Archive: registrytest.TarGz(append([]registrytest.Entry{own}, entries...)...)}
	}
	says := func(text string) registrytest.Release {
		return registrytest.Release{Files: map[string]string{"package.json": text, "run.sh": "#!/bin/sh\n"}}
	}
	for name, tt := range map[string]struct {
		release registrytest.Release
		want    string
	}{
		"integrity missing": {registrytest.Release{Integrity: ptr("")}, "states no hash"},
		"integrity of SHA-1 alone": {registrytest.Release{Integrity: ptr("sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=")},
			"no SHA-512"},
		"integrity of another": {registrytest.Release{Integrity: ptr(left("2.0.0").Hash())},
			"its content has the hash"},
		"age unknown":      {registrytest.Release{Age: registrytest.Unknown}, "--min-release-age left=0"},
		"too young a part": {registrytest.Release{Age: hour}, "--min-release-age left=0"},
		"tarball on another host": {registrytest.Release{URL: "https://cdn.example/left.tgz"},
			"is not at its registry"},
		"changed tarball": {registrytest.Release{Served: registrytest.TarGz(own)}, "its content has the hash"},
		"redirect to http": {registrytest.Release{Redirect: "http://198.51.100.7/left.tgz"},
			"not reached over https"},
		"redirect to the network": {registrytest.Release{Redirect: "https://169.254.169.254/latest/meta-data"},
			"private address"},
		"redirect to a local name": {registrytest.Release{Redirect: "https://intranet/left.tgz"},
			"host of this network"},
		"another package's name": {says(`{"name":"right","version":"1.0.0"}`), `it is "right"`},
		"another version inside": {says(`{"name":"left","version":"6.6.6"}`), `"6.6.6"`},
		"program outside": {says(`{"name":"left","version":"1.0.0","bin":"../other/index.js"}`),
			"outside of the package"},
		"program of the system": {says(`{"name":"left","version":"1.0.0","bin":"/bin/sh"}`),
			"outside of the package"},
		"program of a shell": {says(`{"name":"left","version":"1.0.0","bin":"run.sh"}`),
			"not one that node runs"},
		"program with a variable": {says(`{"name":"left","version":"1.0.0","bin":"${HOME}/x.js"}`),
			"outside of the package"},
		"no program":    {says(`{"name":"left","version":"1.0.0"}`), "no program"},
		"zip-slip":      {with(registrytest.Entry{Name: "package/../../evil.js"}), "leads out"},
		"absolute path": {with(registrytest.Entry{Name: "/etc/evil.js"}), "absolute path"},
		"symbolic link": {with(registrytest.Entry{
			Name: "package/x",
			Link: "/etc/passwd",
			Type: tar.TypeSymlink,
		}), "symbolic link"},
		"hard link": {with(registrytest.Entry{
			Name: "package/x",
			Link: "/etc/passwd",
			Type: tar.TypeLink,
		}), "hard link"},
		"device node": {with(registrytest.Entry{Name: "package/x", Type: tar.TypeChar}), "device"},
		"case twins": {with(registrytest.Entry{Name: "package/Index.js"},
			registrytest.Entry{Name: "package/index.js"}), "where case does not count"},
		"an entry twice": {with(registrytest.Entry{Name: "package/x.js", Body: "1"},
			registrytest.Entry{Name: "package/x.js", Body: "2"}), "there twice"},
		"decompression bomb": {with(registrytest.Entry{Name: "package/x.js", Size: 200 << 20}), "too large"},
		"backslashes":        {with(registrytest.Entry{Name: `package/..\..\evil.js`}), "backslash"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.release.Name, tt.release.Version = "left", "1.0.0"
			l := newLab(t, tt.release)
			p, err := l.putLocked(t, tt.release)
			l.refused(t, p, err, tt.want)
		})
	}
}

// putLocked puts the package of a package-lock.json into the store, with the registry's archives.
func (l *lab) putLocked(t *testing.T, r registrytest.Release) (*Package, error) {
	integrity := r.Hash()
	if r.Integrity != nil {
		integrity = *r.Integrity
	}
	lock := fmt.Sprintf(`{"lockfileVersion": 3, "packages": {"": {}, "node_modules/%s": {"version": %q, "integrity": %q}}}`, r.Name, r.Version, integrity)
	entries, err := parsePackageLock([]byte(lock))
	if err != nil {
		return nil, err
	}
	client, err := download.New(l.URL)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	parts, err := l.locate(t.Context(), client, &npmConfig{registry: l.URL}, entries)
	if err != nil {
		return nil, err
	}
	return l.put(t.Context(), resolved{version: r.Version, parts: parts, from: origin{registries: []string{l.URL}}})
}

// TestAttacksPackageLock: packages that npm did not resolve from the registry are refused.
func TestAttacksPackageLock(t *testing.T) {
	l := newLab(t, left("1.0.0"))
	client, err := download.New(l.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	good := fmt.Sprintf(`{"lockfileVersion": 3, "packages": {"": {}, "node_modules/left": {"version": "1.0.0", "resolved": %q, "integrity": %q}}}`, l.URL+"/left/-/1.0.0.tgz", left("1.0.0").Hash())
	for name, tt := range map[string]struct{ old, new, want string }{
		"good":             {"", "", ""},
		"folder":           {`"resolved"`, `"link": true, "resolved"`, "a folder of this machine"},
		"folder elsewhere": {`node_modules/left`, `../left`, "a folder of this machine"},
		"leads out":        {`node_modules/left`, `node_modules/../../left`, "a folder of this machine"},
		"git":              {l.URL, "git+https://h.example", "only packages of the registry"},
		"another host":     {l.URL, "https://h.example", "is not at its registry"},
		"no name":          {`node_modules/left`, `node_modules/le ft`, "no name of a package"},
		"another archive":  {left("1.0.0").Hash(), left("2.0.0").Hash(), "and the registry states"},
		"another version":  {`"1.0.0"`, `"1.0.1"`, "has no left 1.0.1"},
		"unknown form":     {`"lockfileVersion": 3`, `"lockfileVersion": 4`, "version 4"},
	} {
		entries, err := parsePackageLock([]byte(strings.Replace(good, tt.old, tt.new, 1)))
		if err == nil {
			_, err = l.locate(t.Context(), client, &npmConfig{registry: l.URL}, entries)
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", name, err, tt.want)
		}
	}
}

// TestAttacksNPM tries attacks through npm's resolution.
func TestAttacksNPM(t *testing.T) {
	other := registrytest.NewNPM(t, left("1.0.0"))
	dependsOn := func(what string) func(l *lab) {
		return func(l *lab) {
			one := weather("1.0.0")
			one.JSON["dependencies"] = map[string]string{"left": what}
			l.Publish(one)
		}
	}
	for name, tt := range map[string]struct {
		attack func(l *lab)
		want   string
	}{
		"too young": {func(l *lab) {
			one := left("1.0.0")
			one.Age = hour
			l.Publish(one)
		}, "--min-release-age"},
		"dependency from git":        {dependsOn("git+file:///tmp/none"), "npm failed"},
		"dependency from a folder":   {dependsOn("file:/etc"), "npm failed"},
		"dependency from an address": {dependsOn(other.URL + "/left/-/1.0.0.tgz"), "npm failed"},
		"dependency confusion": {func(l *lab) { l.setenv("npm_config_@acme:registry", other.URL) },
			"404 Not Found"},
		"registry over http": {func(l *lab) { l.setenv("npm_config_registry", "http://198.51.100.7/") },
			"not reached over https"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, weather("1.0.0"), left("1.0.0"))
			tt.attack(l)
			p, err := l.add(t, "npm:@acme/mcp-weather")
			l.refused(t, p, err, tt.want)
		})
	}
}

// TestOldNPM: npm 10, which ignores --allow-git, starts no program for a git package either.
func TestOldNPM(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("the programs that stand in are scripts of a shell")
	}
	for _, address := range []string{
		"git+https://h.example/left.git",
		"git+file:///tmp/none",
		"github:acme/left",
		"git+ssh://git@h.example/left",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			one := weather("1.0.0")
			one.JSON["dependencies"] = map[string]string{"left": address}
			l := newLab(t, one)
			real, err := exec.LookPath("npm")
			if err != nil {
				t.Fatal(err)
			}
			bin, ran := filepath.Join(l.Dir, "bin"), filepath.Join(l.Dir, "ran")
			writeFile(t, filepath.Join(bin, "npm"),
				"#!/bin/sh\nfor word; do\n\tshift\n\tcase $word in --allow-*) ;; *) set -- \"$@\" \"$word\" ;; "+
					"esac\ndone\nexec '"+real+"' \"$@\"\n")
			for _, name := range []string{"git", "ssh"} {
				writeFile(t, filepath.Join(bin, name), "#!/bin/sh\n: >'"+ran+"'\nexit 1\n")
			}
			for _, name := range []string{"npm", "git", "ssh"} {
				if err := os.Chmod(filepath.Join(bin, name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			l.setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
			p, err := l.add(t, "npm:@acme/mcp-weather")
			l.refused(t, p, err, "npm runs no program here")
			if _, err := os.Stat(ran); err == nil {
				t.Error("npm ran a program")
			}
		})
	}
}

// TestPrivateNPM: a registry gets the token from the user's .npmrc, when adding and when fetching. The registry of a
// scope gets a token of its own. The lock file contains neither.
func TestPrivateNPM(t *testing.T) {
	scoped := registrytest.NewNPM(t, weather("1.0.0"))
	scoped.Authorization = "Basic YWRhOnNlY3JldA=="
	l := newLab(t, left("1.0.0"))
	l.NPM.Authorization = "Bearer of-left"
	at := func(r *registrytest.NPM) string { return strings.TrimPrefix(r.URL, "http:") }
	l.setenv("LEFT_TOKEN", "of-left")
	writeFile(t, filepath.Join(l.Dir, "npmrc"),
		fmt.Sprintf("%s/:_authToken=${LEFT_TOKEN}\n@acme:registry=%s/\n%s/:username=ada\n%s/:_password=c2VjcmV0\n",
			at(l.NPM), scoped.URL, at(scoped), at(scoped)))
	p, err := l.add(t, "npm:@acme/mcp-weather")
	if err != nil {
		t.Fatal(err)
	}
	e := locked(p)
	if text := fmt.Sprintf("%+v", e); strings.Contains(text, "of-left") || strings.Contains(text, "YWRh") {
		t.Errorf("the lock file has a secret: %s", text)
	}
	if _, err := l.Store.Remove(p.Tree); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Fetch(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Store.Remove(p.Tree); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(l.Dir, "npmrc"), fmt.Sprintf("@acme:registry=%s/\n", scoped.URL))
	if _, err := l.Fetch(t.Context(), e); err == nil ||
		!strings.Contains(err.Error(), "answers 401 Unauthorized; who asks is stated by") {
		t.Errorf("without a token: %v", err)
	}
}

// TestAttacksLocked: fetching a lock file entry yields exactly that package or fails.
func TestAttacksLocked(t *testing.T) {
	l := newLab(t, weather("1.0.0"), left("1.0.0"))
	p, err := l.add(t, "npm:@acme/mcp-weather")
	if err != nil {
		t.Fatal(err)
	}
	good := locked(p)
	moved := left("1.0.0")
	moved.Files = map[string]string{"index.js": "evil"}
	for name, tt := range map[string]struct {
		attack func(e *lock.Entry)
		want   string
	}{
		"moved version": {func(*lock.Entry) { l.Publish(moved) }, "its content has the hash"},
		"another tree": {func(e *lock.Entry) { e.Tree = "h1:" + strings.Repeat("A", 43) + "=" },
			"the lock file states"},
		"a part less":         {func(e *lock.Entry) { e.Parts = e.Parts[:1] }, "the lock file states"},
		"integrity taken out": {func(e *lock.Entry) { e.Parts[1].Integrity = "" }, "is stated for it"},
		"address of a file": {func(e *lock.Entry) { e.Parts[1].URL = "file:///etc/passwd" },
			"not reached over https"},
		"address in the network": {func(e *lock.Entry) { e.Parts[1].URL = "https://10.0.0.1/left.tgz" },
			"private address"},
		"place of another part":     {func(e *lock.Entry) { e.Parts[1].Path = e.Parts[0].Path }, "twice"},
		"scripts that nobody named": {func(e *lock.Entry) { e.Scripts = []string{"left"} }, "--allow-scripts left"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := l.Store.Remove(p.Tree); err != nil {
				t.Fatal(err)
			}
			l.Publish(left("1.0.0"))
			e := good
			e.Parts = append([]lock.Part{}, good.Parts...)
			tt.attack(&e)
			if _, err := l.Fetch(context.Background(), e); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want %q", err, tt.want)
			}
			if entries, _ := os.ReadDir(filepath.Join(l.Dir, "store")); len(entries) > 0 {
				t.Errorf("left in the store: %v", entries)
			}
		})
	}
}
