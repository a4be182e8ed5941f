package packages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/supply/download"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/registrytest"
)

type pyLab struct {
	*registrytest.PyPI
	workbench
}

// pip checks once whether pip is installed.
var pip = sync.OnceValue(func() error { return exec.Command("python3", "-m", "pip", "--version").Run() })

func newPyLab(t testing.TB, wheels ...registrytest.Wheel) *pyLab {
	processtest.Optional(t)
	processtest.Needs(t, "python3")
	if err := pip(); err != nil {
		t.Skipf("NOT TESTED: %s needs pip for python3, which is missing", t.Name())
	}
	l := &pyLab{registrytest.NewPyPI(t, wheels...), newWorkbench(t)}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PIP_") {
			l.Installer.Environ = append(l.Installer.Environ, v)
		}
	}
	for name, value := range l.PyPI.Environ() {
		l.setenv(name, value)
	}
	return l
}

func pyWeather(version string) registrytest.Wheel {
	return registrytest.Wheel{
		Name:     "mcp-weather",
		Version:  version,
		Requires: []string{"right>=1"},
		Scripts:  "mcp-weather = mcp_weather.main:app.run",
		Files: map[string]string{
			"mcp_weather/__init__.py": "",
			"mcp_weather/main.py": "import right, sys\nclass app:\n    def run():\n        print(right.text, " +
				"sys.argv[1:])\n",
		},
	}
}

func right(version string) registrytest.Wheel {
	return registrytest.Wheel{
		Name:    "right",
		Version: version,
		Files:   map[string]string{"right-" + version + ".data/purelib/right.py": "text = 'sun'\n"},
	}
}

// TestAddPyPI adds a Python package with its dependencies, runs it, and fetches it again.
func TestAddPyPI(t *testing.T) {
	processtest.Leaks(t)
	one := right("1.0")
	one.Files["package.json"] = `{"scripts": {"install": "of a page that it serves"}}`
	l := newPyLab(t, pyWeather("1.0"), pyWeather("2.0"), one)
	p, err := l.add(t, "pypi:mcp_weather==1.0")
	if err != nil {
		t.Fatal(err)
	}
	if p.Version != "1.0" || len(p.Parts) != 2 || p.Parts[0].Name != "mcp-weather" || p.Parts[1].Path != "lib/right" ||
		!strings.HasPrefix(p.Parts[0].Integrity, "sha256-") || len(p.Held) > 0 {
		t.Errorf("%+v", p)
	}
	dir, _, err := l.Store.Verify(p.Tree)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{}, p.Run.Args...)
	for n := range args {
		args[n] = strings.NewReplacer(Root, dir, "${EXTHOST_STATE_DIR}", l.Dir).Replace(args[n])
	}
	if out, err := exec.Command(p.Run.Command, append(args, "--here")...).CombinedOutput(); err != nil ||
		string(out) != "sun ['--here']\n" {
		t.Errorf("%v: %s", err, out)
	}
	if _, _, err := l.Store.Verify(p.Tree); err != nil {
		t.Errorf("a run changed the tree: %v", err)
	}
	if found, _ := filepath.Glob(filepath.Join(l.Dir, "pycache", "*")); len(found) == 0 {
		t.Error("nothing compiled was kept")
	}
	if _, err := l.Store.Remove(p.Tree); err != nil {
		t.Fatal(err)
	}
	if now, err := l.Resolve(t.Context(), p.Source); err != nil || !now.Same(locked(p)) {
		t.Errorf("%+v, %v", now, err)
	}
	if trees, err := l.Store.Trees(); err != nil || len(trees) != 0 {
		t.Errorf("%v, %v", trees, err)
	}
	if _, err := l.Fetch(t.Context(), locked(p)); err != nil {
		t.Error(err)
	}
}

// TestForeignTemporaryFiles: files of others in the temporary directory are neither run nor read.
func TestForeignTemporaryFiles(t *testing.T) {
	py, npm := newPyLab(t, pyWeather("1.0"), right("1.0")), newLab(t, weather("1.0.0"), left("1.0.0"))
	var entries []lock.Entry
	for _, add := range []func() (*Package, error){
		func() (*Package, error) { return py.add(t, "pypi:mcp-weather") },
		func() (*Package, error) { return npm.add(t, "npm:@acme/mcp-weather") },
	} {
		p, err := add()
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, locked(p))
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ran := filepath.Join(t.TempDir(), "ran")
	writeFile(t, filepath.Join(dir, "pip.py"), fmt.Sprintf("open(%q, 'w')\n", ran))
	writeFile(t, filepath.Join(dir, "package.json"), "{}")
	writeFile(t, filepath.Join(dir, ".npmrc"), "@evil:registry=https://registry.example\n")
	for n, i := range []*Installer{py.Installer, npm.Installer} {
		if _, err := i.Store.Remove(entries[n].Tree); err != nil {
			t.Fatal(err)
		}
		if _, err := i.Fetch(t.Context(), entries[n]); err != nil {
			t.Error(err)
		}
		if from, err := i.origin(t.Context(), entries[n]); err != nil || len(from.registries) != 1 {
			t.Errorf("%v, %v", from, err)
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a module of another user ran")
	}
}

// TestPrivatePyPI: an index gets the password from its URL or a netrc, and the lock file does not contain it.
func TestPrivatePyPI(t *testing.T) {
	for name, tt := range map[string]struct{ prefix, netrc, want string }{
		"address":  {"ada:secret@", "", ""},
		"netrc":    {"", "machine 127.0.0.1 login ada password secret\n", ""},
		"nothing":  {"", "", "401"},
		"mistaken": {"ada:guess@", "", "401"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newPyLab(t, pyWeather("1.0"), right("1.0"))
			l.PyPI.Authorization = "Basic YWRhOnNlY3JldA=="
			l.setenv("PIP_INDEX_URL", strings.Replace(l.URL, "://", "://"+tt.prefix, 1)+"/simple")
			writeFile(t, filepath.Join(l.Dir, "netrc"), tt.netrc)
			l.setenv("NETRC", filepath.Join(l.Dir, "netrc"))
			p, err := l.add(t, "pypi:mcp-weather")
			if tt.want != "" {
				l.refused(t, p, err, tt.want)
				if err != nil && strings.Contains(err.Error(), "guess") {
					t.Errorf("the error has the password: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			e := locked(p)
			if text := fmt.Sprintf("%+v", e); strings.Contains(text, "secret") {
				t.Errorf("the lock file has a secret: %s", text)
			}
			if _, err := l.Store.Remove(p.Tree); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Fetch(t.Context(), e); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMinAgePyPI: of the versions, the newest that is old enough is chosen.
func TestMinAgePyPI(t *testing.T) {
	young, younger := pyWeather("1.9"), pyWeather("2.0")
	young.Age, younger.Age = 2*hour, hour
	l := newPyLab(t, pyWeather("1.0"), young, younger, right("1.0"))
	if p, err := l.add(t, "pypi:mcp-weather"); err != nil || p.Version != "1.0" {
		t.Errorf("%+v, %v; want 1.0", p, err)
	}
	l.AgeOf = map[string]time.Duration{"mcp-weather": 0}
	if p, err := l.add(t, "pypi:mcp-weather"); err != nil || p.Version != "2.0" {
		t.Errorf("%+v, %v; want 2.0", p, err)
	}
}

// TestAttacksWheel tries attacks by a wheel or the index's metadata.
func TestAttacksWheel(t *testing.T) {
	with := func(entries ...registrytest.Entry) registrytest.Wheel {
		own := []registrytest.Entry{
			{Name: "right-1.0.dist-info/METADATA", Body: "Metadata-Version: 2.1\nName: right\nVersion: 1.0\n"},
		}
		return registrytest.Wheel{Archive: registrytest.Zip(append(own, entries...)...)}
	}
	for name, tt := range map[string]struct {
		wheel registrytest.Wheel
		want  string
	}{
		"changed wheel": {registrytest.Wheel{Served: registrytest.Zip()}, "its content has the hash"},
		"hash missing":  {registrytest.Wheel{NoHash: true}, "states no SHA-256"},
		"too young":     {registrytest.Wheel{Age: hour}, "--min-release-age right=0"},
		"age unknown":   {registrytest.Wheel{Age: registrytest.Unknown}, "--min-release-age right=0"},
		"another package inside": {registrytest.Wheel{Metadata: "Metadata-Version: 2.1\nName: wrong\nVersion: 1.0\n"},
			`it is "wrong"`},
		"another version inside": {registrytest.Wheel{Metadata: "Metadata-Version: 2.1\nName: right\nVersion: 6.6\n"},
			`"6.6"`},
		"file of another name": {registrytest.Wheel{Filename: "wrong-1.0-py3-none-any.whl"},
			"in place of a wheel of right"},
		"file over http": {registrytest.Wheel{URL: "http://198.51.100.7/right-1.0-py3-none-any.whl"},
			"not reached over https"},
		"file in the network": {registrytest.Wheel{URL: "https://192.168.0.1/right-1.0-py3-none-any.whl"},
			"private address"},
		"program is an expression": {registrytest.Wheel{Scripts: "right = os:system('id') or exit"},
			"a function of a module"},
		"no program":          {registrytest.Wheel{}, "no program"},
		"two of what it says": {with(registrytest.Entry{Name: "wrong-1.0.dist-info/METADATA"}), "2 folders"},
		"zip-slip":            {with(registrytest.Entry{Name: "../../evil.py"}), "leads out"},
		"absolute path":       {with(registrytest.Entry{Name: "/etc/evil.py"}), "absolute path"},
		"symbolic link":       {with(registrytest.Entry{Name: "right.py", Link: "/etc/passwd"}), "symbolic link"},
		"case twins": {with(registrytest.Entry{Name: "Right.py"}, registrytest.Entry{Name: "right.py"}),
			"where case does not count"},
		"an entry twice": {with(registrytest.Entry{Name: "right.py", Body: "1"},
			registrytest.Entry{Name: "right.py", Body: "2"}), "twice"},
		"decompression bomb": {with(registrytest.Entry{Name: "right.py", Body: strings.Repeat("0", 20<<20)}),
			"too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.wheel.Name, tt.wheel.Version = "right", "1.0"
			l := newPyLab(t, tt.wheel)
			p, err := l.putWheel(t, tt.wheel)
			l.refused(t, p, err, tt.want)
		})
	}
}

// putWheel adds a wheel as if pip had chosen it.
func (l *pyLab) putWheel(t *testing.T, one registrytest.Wheel) (*Package, error) {
	config := &pipConfig{index: l.URL + "/simple"}
	client, err := download.New(config.index)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var w pipWheel
	w.Metadata.Name, w.Metadata.Version, w.Download.Archive.Hashes = one.Name, one.Version, map[string]string{
		"sha256": one.Hash(),
	}
	found, err := l.locateWheel(t.Context(), client, config, one.Name, w)
	if err == nil {
		err = found.young
	}
	if err != nil {
		return nil, err
	}
	return l.put(t.Context(), resolved{
		version: one.Version,
		parts:   []lock.Part{found.part},
		from:    origin{registries: []string{config.index}},
	})
}

// TestAttacksPyPI tries attacks through pip's resolution.
func TestAttacksPyPI(t *testing.T) {
	main := func(change func(w *registrytest.Wheel)) func(l *pyLab) {
		return func(l *pyLab) {
			w := pyWeather("1.0")
			change(&w)
			l.Publish(w)
		}
	}
	setenv := func(name, value string) func(l *pyLab) {
		return func(l *pyLab) { l.setenv(name, value) }
	}
	for name, tt := range map[string]struct {
		attack func(l *pyLab)
		want   string
	}{
		"sdist only": {main(func(w *registrytest.Wheel) { w.Filename = "mcp_weather-1.0.tar.gz" }),
			"would run its code"},
		"second index":    {setenv("PIP_EXTRA_INDEX_URL", "https://other.example/simple"), "a second index"},
		"index over http": {setenv("PIP_INDEX_URL", "http://198.51.100.7/simple"), "not reached over https"},
		"dependency from an address": {main(func(w *registrytest.Wheel) {
			w.Requires = []string{"right @ https://127.0.0.1:1/right-1.0-py3-none-any.whl"}
		}), "python3 failed"},
		"dependency to be built": {func(l *pyLab) {
			path := filepath.Join(l.Dir, "right-1.0.tar.gz")
			backend := fmt.Sprintf("open(%q, 'w')\n", filepath.Join(l.Dir, "ran"))
			writeFile(t, path, string(registrytest.TarGz(registrytest.Entry{
				Name: "right-1.0/PKG-INFO",
				Body: "Metadata-Version: 2.1\nName: right\nVersion: 1.0\n",
			},
				registrytest.Entry{
					Name: "right-1.0/pyproject.toml",
					Body: "[build-system]\nrequires = []\nbuild-backend = 'b'\nbackend-path = ['.']\n",
				},
				registrytest.Entry{Name: "right-1.0/b.py", Body: backend})))
			main(func(w *registrytest.Wheel) { w.Requires = []string{"right @ file://" + path} })(l)
		}, "pip runs no program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newPyLab(t, pyWeather("1.0"), right("1.0"))
			tt.attack(l)
			p, err := l.add(t, "pypi:mcp-weather")
			l.refused(t, p, err, tt.want)
			if _, err := os.Stat(filepath.Join(l.Dir, "ran")); err == nil {
				t.Error("code of a package ran")
			}
		})
	}
}

// TestPrograms: of a package with several programs one has to be named, and a lock with that name runs the same one.
func TestPrograms(t *testing.T) {
	processtest.Leaks(t)
	l := newPyLab(t, registrytest.Wheel{
		Name:    "serena-agent",
		Version: "1.0",
		Scripts: "index-project = agent:index\nserena-mcp-server = agent:serve",
		Files:   map[string]string{"agent.py": "import sys\ndef serve():\n    print('serves', sys.argv)\ndef index(): pass\n"},
	})
	const several = "has the programs index-project, serena-mcp-server, and none that is called "
	for program, want := range map[string]string{
		"":      several + "serena-agent; --program NAME",
		"serve": several + "serve",
	} {
		s := Source{Kind: PyPI, Name: "serena-agent", Program: program}
		if _, err := l.Add(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", program, err)
		}
	}
	p, err := l.Add(t.Context(), Source{Kind: PyPI, Name: "serena-agent", Program: "serena_mcp_server"})
	if err != nil {
		t.Fatal(err)
	}
	e := locked(p)
	dir, _, err := l.Store.Verify(p.Tree)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("python3", "-I", "-S", "-B", filepath.Join(dir, launcherFile)).CombinedOutput()
	if err != nil || string(out) != "serves ['serena-mcp-server']\n" {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := l.Store.Remove(p.Tree); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Fetch(t.Context(), e); err != nil {
		t.Error(err)
	}
	if s, err := l.Source(e); err != nil || s.Program != "serena_mcp_server" {
		t.Errorf("%+v, %v", s, err)
	}
}
