package descriptors

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/runtime"
)

// A changed file, manifest or environment makes a different version. The fingerprint covers only the manifest, the
// command line and the named variables.
func TestVersions(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("main.sh", "one")
	write("words.txt", "one")
	spec := func(args ...string) *runtime.Spec {
		return &runtime.Spec{
			ID:  "x",
			Dir: dir,
			Env: []string{"UNITS=metric", "OTHER=1"},
			Manifest: &manifest.Manifest{
				Transport: manifest.Transport{Script: "main.sh", Args: args},
				Dev:       manifest.Dev{Watch: []string{"*.txt"}},
			},
		}
	}
	for _, tt := range []struct {
		name   string
		change func(s *runtime.Spec)
		differ []string // files
		print  bool     // the fingerprint differs
	}{
		{"a script", func(*runtime.Spec) { write("main.sh", "two") }, []string{"main.sh"}, true},
		{"a watched file", func(*runtime.Spec) { write("words.txt", "two") }, []string{"words.txt"}, false},
		{"a new file", func(*runtime.Spec) { write("more.txt", "") }, []string{"more.txt"}, false},
		{"the manifest", func(s *runtime.Spec) { s.Manifest.Transport.Args = []string{"-v"} }, []string{"plugin.toml"},
			true},
		{"a named variable", func(s *runtime.Spec) { s.Env[0] = "UNITS=other" }, nil, true},
		{"another variable", func(s *runtime.Spec) { s.Env[1] = "OTHER=2" }, nil, false},
	} {
		s := spec()
		before, was := SourceOf(s), fingerprint(t, s)
		if again := SourceOf(spec()); again.Sum != before.Sum || again.Differs(before, "plugin.toml") != nil {
			t.Errorf("%s: two readings of one version differ", tt.name)
		}
		tt.change(s)
		now := SourceOf(s)
		if got := now.Differs(before, "plugin.toml"); now.Sum == before.Sum || !slices.Equal(got, tt.differ) {
			t.Errorf("%s: files %q, want %q", tt.name, got, tt.differ)
		}
		if differs := fingerprint(t, s) != was; differs != tt.print {
			t.Errorf("%s: the fingerprint differs: %v", tt.name, differs)
		}
	}
}

func fingerprint(t *testing.T, s *runtime.Spec) string {
	t.Helper()
	key, err := Fingerprint(s, "UNITS")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestOwnFiles(t *testing.T) {
	for _, tt := range []struct {
		transport manifest.Transport
		want      []string
	}{
		{manifest.Transport{Script: "gone.sh"}, []string{"/x/gone.sh"}},
		{manifest.Transport{Command: "sh", Args: []string{"a.sh", "/b.sh"}, Cwd: "sub"},
			[]string{"/x/sub/a.sh", "/b.sh"}},
		{manifest.Transport{Command: "no-such-program", Args: []string{"a.sh", "-v"}}, []string{"/x/a.sh", "/x/-v"}},
		{manifest.Transport{}, nil},
	} {
		s := &runtime.Spec{Dir: "/x", Env: []string{"PATH=/bin"}, Manifest: &manifest.Manifest{Transport: tt.transport}}
		if got := OwnFiles(s); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.transport, got, tt.want)
		}
	}
}
