package consent_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/protocol"
)

const manifestText = `
[plugin]
id = "kit"
version = "0.1.0"
[capabilities]
tools = ["go"]
[transport]
command = "python3"
args = ["main.py", "--rules=rules.data", "../shared/more.data"]
`

// kit is an extension on disk, and a user's records.
type kit struct {
	*testing.T
	dir string
	consent.Consent
}

func newKit(t *testing.T) *kit {
	base := t.TempDir()
	k := &kit{
		T:       t,
		dir:     filepath.Join(base, "extensions", "kit"),
		Consent: consent.Consent{Store: consent.NewStore(filepath.Join(base, "trust"))},
	}
	k.write("plugin.toml", manifestText)
	k.write("main.py", "import lib\n")
	k.write("lib/deep.py", "x = 1\n")
	k.write("rules.data", "1\n")
	k.write("../shared/more.data", "1\n")
	k.write("notes.txt", "1\n")
	return k
}

func (k *kit) write(name, text string) {
	k.Helper()
	path := filepath.Join(k.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		k.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		k.Fatal(err)
	}
}

func (k *kit) candidate() *discovery.Candidate {
	k.Helper()
	found, err := discovery.Discover(k.Context(), discovery.Options{SearchPaths: []string{k.dir}})
	if err != nil || len(found.Candidates) != 1 {
		k.Fatalf("found %v, %v, %v", found.Candidates, found.Diagnostics, err)
	}
	return &found.Candidates[0]
}

func (k *kit) revoke() {
	k.Helper()
	k.change(func(r *consent.Record) { r.Revoke() })
}

// change changes the record like another program.
func (k *kit) change(change func(*consent.Record)) {
	k.Helper()
	dir, err := filepath.EvalSymlinks(k.dir)
	if err == nil {
		err = k.Store.Change(dir, consent.Extension, func(r *consent.Record) error {
			change(r)
			return nil
		})
	}
	if err != nil {
		k.Fatal(err)
	}
}

func (k *kit) accept() {
	k.Helper()
	v, err := k.Extension(k.candidate())
	if err != nil {
		k.Fatal(err)
	}
	if err := k.Store.Trust(consent.Trusted{ID: "kit", Verdict: v, Secrets: []string{"A_TOKEN"}}); err != nil {
		k.Fatal(err)
	}
}

// says expects the answer of Allows: "" for yes, else a part of the reason.
func (k *kit) says(want string) {
	k.Helper()
	err := k.Allows(k.candidate())
	switch {
	case want == "" && err != nil:
		k.Errorf("not allowed: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		k.Errorf("says %v, want %q", err, want)
	case err != nil && protocol.KindOf(err) != protocol.Untrusted:
		k.Errorf("kind %s of %v", protocol.KindOf(err), err)
	}
}

// TestChanges changes one thing at a time in a trusted folder.
func TestChanges(t *testing.T) {
	link := func(target, name string) func(*kit) {
		return func(k *kit) {
			if err := os.Symlink(target, filepath.Join(k.dir, name)); err != nil {
				k.Skip("NOT TESTED: links cannot be made: ", err)
			}
		}
	}
	write := func(name, text string) func(*kit) { return func(k *kit) { k.write(name, text) } }
	for name, test := range map[string]struct {
		change func(*kit)
		want   string
	}{
		"nothing":  {func(*kit) {}, ""},
		"data":     {write("notes.txt", "2\n"), ""},
		"new data": {write("store.sqlite", "2\n"), ""},
		"manifest": {write("plugin.toml", manifestText+"[context]\npassthrough = true\n"),
			"plugin.toml"},
		"program":                  {write("main.py", "import evil\n"), "main.py"},
		"module":                   {write("lib/deep.py", "x = 2\n"), "lib/deep.py"},
		"one that shadows another": {write("json.py", ""), "json.py (new)"},
		"named settings":           {write("rules.data", "2\n"), "rules.data"},
		"named data":               {write("../shared/more.data", "2\n"), ""},
		"removed":                  {func(k *kit) { k.remove("lib/deep.py") }, "lib/deep.py (removed)"},
		"servers beside":           {write(".mcp.json", `{"mcpServers": {}}`), ".mcp.json (new)"},
		"skill":                    {write("skills/one/SKILL.md", "---\n"), "skills/one/SKILL.md (new)"},
		"folder named skills":      {write("skills/one/scores.json", "{}"), ""},
		"library":                  {write("evil.so", "x"), "evil.so (new)"},
		"dependency":               {write("node_modules/x/index.js", "x"), "index.js (new)"},
		"settings of a tool":       {write(".npmrc", "x"), ".npmrc (new)"},
		"became executable":        {func(k *kit) { k.chmod("notes.txt", 0o755) }, "notes.txt (new)"},
		"link to code":             {link("../shared/more.data", "more.py"), "more.py (new)"},
		"link to nothing":          {link("nothing", "more.py"), ""},
		"link to a folder": {func(k *kit) { k.write("../shared/evil.py", "x"); link("../shared", "sub")(k) },
			"sub/evil.py (new)"},
		"link in a circle":   {link(".", "sub"), "sub/ (new)"},
		"link to known code": {link("lib", "newlib"), "newlib/ (new)"},
		"link to data":       {func(k *kit) { k.write("data/x.txt", "1"); link("data", "latest")(k) }, ""},
		"cache of Python":    {func(k *kit) { k.pyc(0) }, ""},
		"checked cache":      {func(k *kit) { k.pyc(3) }, ""},
		"unchecked cache":    {func(k *kit) { k.pyc(1) }, "deep.cpython-312.pyc (new)"},
		"same size and time": {func(k *kit) {
			path := filepath.Join(k.dir, "lib/deep.py")
			info, err := os.Stat(path)
			if err != nil {
				k.Fatal(err)
			}
			k.write("lib/deep.py", "x = 9\n")
			if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
				k.Fatal(err)
			}
		}, "lib/deep.py"},
		"written again": {write("lib/deep.py", "x = 1\n"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			k.says("nobody has agreed")
			k.accept()
			k.says("")
			test.change(k)
			k.says(test.want)
			k.accept()
			k.says("")
		})
	}
}

func (k *kit) remove(name string) {
	k.Helper()
	if err := os.Remove(filepath.Join(k.dir, name)); err != nil {
		k.Fatal(err)
	}
}

func (k *kit) chmod(name string, mode os.FileMode) {
	k.Helper()
	if err := os.Chmod(filepath.Join(k.dir, name), mode); err != nil {
		k.Fatal(err)
	}
}

// pyc writes a bytecode cache with these flags.
func (k *kit) pyc(flags uint32) {
	k.Helper()
	head := binary.LittleEndian.AppendUint32([]byte{0xcb, 0x0d, 0x0d, 0x0a}, flags)
	k.write("lib/__pycache__/deep.cpython-312.pyc", string(head)+"12345678")
}

// TestTrustedIsWhatWasSeen changes a file between the comparison and the user's answer.
func TestTrustedIsWhatWasSeen(t *testing.T) {
	k := newKit(t)
	v, err := k.Extension(k.candidate())
	if err != nil {
		t.Fatal(err)
	}
	k.write("main.py", "import evil\n")
	if err := k.Store.Trust(consent.Trusted{ID: "kit", Verdict: v}); err != nil {
		t.Fatal(err)
	}
	k.says("main.py")
}

// TestMoved copies a trusted folder to another place.
func TestMoved(t *testing.T) {
	k := newKit(t)
	k.accept()
	if err := os.Rename(k.dir, k.dir+"2"); err != nil {
		t.Fatal(err)
	}
	k.dir += "2"
	k.says("nobody has agreed")
}

// TestLinkedFolder finds a trusted folder through a link in a directory with other programs.
func TestLinkedFolder(t *testing.T) {
	for _, line := range []string{
		`command = "../../shared/run.sh"`,
		"command = \"sh\"\nargs = [\"../../shared/run.sh\"]",
	} {
		k := newKit(t)
		k.write("plugin.toml", "[plugin]\nid = \"kit\"\nversion = \"0.1.0\"\n[capabilities]\ntools = "+
			"[\"go\"]\n[transport]\n"+line+"\n")
		k.write("../../shared/run.sh", "echo good\n")
		k.accept()
		k.says("")
		k.write("../../clone/shared/run.sh", "echo evil\n")
		clone := filepath.Join(k.dir, "../../clone")
		if err := os.Symlink(filepath.Dir(k.dir), filepath.Join(clone, "extensions")); err != nil {
			t.Skip("NOT TESTED: links cannot be made: ", err)
		}
		k.dir = filepath.Join(clone, "extensions/kit")
		k.says("shared/run.sh (new)")
	}
}

// TestRecords reads, revokes and removes records.
func TestRecords(t *testing.T) {
	k := newKit(t)
	k.accept()
	c := k.candidate()
	if !k.Granted(c, "A_TOKEN") || k.Granted(c, "B_TOKEN") {
		t.Error("A_TOKEN alone was granted")
	}
	all, err := k.Store.All()
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	want := []string{"lib/deep.py", "main.py", "plugin.toml", "rules.data"}
	var got []string
	for path := range all[0].Files {
		got = append(got, path)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("files (-want +got):\n", diff)
	}
	k.revoke()
	k.says("revoked")
	if k.Granted(c, "A_TOKEN") {
		t.Error("the secret is still granted")
	}
	k.accept()
	k.says("")
}

// TestRecordsThatCannotBeUsed: unreadable records are errors.
func TestRecordsThatCannotBeUsed(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(k *kit, path string) error
		want  string
	}{
		"not JSON": {func(_ *kit, path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
			"no record of trust"},
		"newer version": {func(_ *kit, path string) error { return os.WriteFile(path, []byte(`{"version":9}`), 0o600) },
			"version 9"},
		"unknown key": {func(_ *kit, path string) error {
			return os.WriteFile(path, []byte(`{"version":1,"trusted":true}`), 0o600)
		}, "unknown field"},
		"of another folder": {func(_ *kit, path string) error {
			return os.WriteFile(path, []byte(`{"version":1,"dir":"/x","kind":"extension"}`), 0o600)
		}, "record of /x"},
		"gone": {func(k *kit, path string) error {
			return os.Rename(path, path+".real")
		}, "nobody has agreed"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			k.accept()
			paths, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(k.dir)), "trust", "*.json"))
			if err != nil || len(paths) != 1 {
				t.Fatal(paths, err)
			}
			if err := test.spoil(k, paths[0]); err != nil {
				t.Fatal(err)
			}
			k.says(test.want)
		})
	}
}
