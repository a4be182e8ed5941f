package marketplace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// write writes a marketplace into a new folder.
func write(t *testing.T, name, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSources reads each form of a plugin's source. It refuses a path that leads out of the repository, and a form that
// is not known.
func TestSources(t *testing.T) {
	for stated, want := range map[string]string{
		`"./plugins/a"`:                       "plugins/a",
		`"a"`:                                 "a",
		`"./"`:                                ".",
		`"../a"`:                              "leads out",
		`"./a/../../b"`:                       "leads out",
		`"./a/../b"`:                          "leads out",
		`"/etc"`:                              "leads out",
		`"a\\b"`:                              "leads out",
		`"a\u0000"`:                           "leads out",
		`7`:                                   "neither a path nor an object",
		`null`:                                "neither a path nor an object",
		`{"source": "local", "path": "./p"}`:  "p",
		`{"source": "local", "path": "../p"}`: "leads out",
		`{"source": "github", "repo": "o/r"}`: "https://github.com/o/r@HEAD:.",
		`{"source": "github", "repo": "o/r", "ref": "v1", "sha": "abc"}`:                "https://github.com/o/r@abc:.",
		`{"source": "github", "repo": "o/r/../x"}`:                                      "no repository of GitHub",
		`{"source": "github", "repo": "-o"}`:                                            "no repository of GitHub",
		`{"source": "url", "url": "https://e.com/r.git", "path": "x"}`:                  "https://e.com/r.git@HEAD:x",
		`{"source": "url", "url": "file:///etc"}`:                                       "no https address",
		`{"source": "url", "url": "ext::sh -c x"}`:                                      "no https address",
		`{"source": "git-subdir", "url": "https://e.com/r", "path": "a/b", "ref": "m"}`: "https://e.com/r@m:a/b",
		`{"source": "git-subdir", "url": "https://e.com/r", "path": "../b"}`:            "leads out",
		`{"source": "npm", "package": "@o/p", "version": "1.0.0"}`:                      "npm:@o/p@1.0.0",
		`{"source": "pip", "package": "p"}`:                                             `kind "pip"`,
	} {
		s, err := sourceOf([]byte(stated), "")
		got := s.Dir
		switch {
		case err != nil:
			got = err.Error()
		case s.Git != "":
			got = s.Git + "@" + s.Ref + ":" + s.Dir
		case s.NPM != "":
			got = "npm:" + s.NPM
		}
		if got != want && !(err != nil && strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", stated, got, want)
		}
	}
}

// TestRead lists the plugins of a marketplace in the order of its file, and names why one cannot be added.
func TestRead(t *testing.T) {
	m, err := Read(write(t, ".agents/plugins/marketplace.json", `{"name": "m", "metadata": {"pluginRoot": "./plugins"},
		"plugins": [{"name": "b", "source": "./b", "description": "B."}, {"name": "a", "source": "a", "strict": false},
		{"name": "twin", "source": "x"}, {"name": "twin", "source": "y"}, {"name": "../x", "source": "x"},
		{"name": "out", "source": "../../x"}, {"name": "odd", "source": "x", "strict": "no"},
		{"name": "a\nb\u001b[2J", "source": "x"}, {"name": "`+strings.Repeat("n", 1<<20)+`", "source": "x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range m.Plugins {
		got = append(got, fmt.Sprintf("%s %s %v %s", p.Name, p.Source.Dir, p.Alone, p.Reason))
	}
	if diff := cmp.Diff([]string{
		"b plugins/b false ",
		"a plugins/a true ",
		"twin plugins/x false the list has 2 plugins of this name",
		"twin plugins/y false the list has 2 plugins of this name",
		"../x  false its name has a character that the name of a plugin does not have, or is too long",
		`out  false its path "../../x" leads out of the repository`,
		"odd  false its entry cannot be read: json: cannot unmarshal string into Go struct field .strict of type bool",
		`a\x0ab\x1b[2J  false its name has a character that the name of a plugin does not have, or is too long`,
		strings.Repeat("n", 97) + "…  false its name has a character that the name of a plugin does not have, or is " +
			"too long",
	}, got); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{
		"b":    "",
		"twin": "2 plugins of this name",
		"c":    "lists no plugin c",
		"twn":  "did you mean twin?",
	} {
		if _, err := m.Find(name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestHostile refuses a file that is no list of plugins, and a list of 100,000 plugins, without much work.
func TestHostile(t *testing.T) {
	entries := strings.TrimSuffix(strings.Repeat(`{"name": "p", "source": "./p"},`, 100_000), ",")
	for text, want := range map[string]string{
		`{`:                               "not JSON",
		`[]`:                              "no list of plugins",
		`{"plugins": 7}`:                  "no list of plugins",
		`{"plugins": [{"source": "./"}]}`: "plugins[0] states no name",
		`{"plugins": [` + entries + `]}`:  "more than 5000 plugins",
		strings.Repeat(" ", maxBytes+1):   "more than 8 MiB",
		strings.Repeat("[", 1_000_000):    "not JSON",
	} {
		begun := time.Now()
		_, err := Read(write(t, names[0], text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("%.40s took %v", text, took)
		}
	}
	if _, err := Read(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Errorf("an empty folder: %v", err)
	}
}
