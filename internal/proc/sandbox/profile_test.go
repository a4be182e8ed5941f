package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/manifest/sandbox"
)

// tree creates files below a new directory: a name that ends in / is a directory, and "a -> b" a symbolic link.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		name, to, link := strings.Cut(name, " -> ")
		name, text, _ := strings.Cut(name, "=")
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		switch {
		case err != nil:
		case link:
			err = os.Symlink(strings.ReplaceAll(to, "ROOT", root), path)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o700)
		default:
			err = os.WriteFile(path, []byte(strings.ReplaceAll(text, "ROOT", root)), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// A profile adds the installation of the program's interpreter, however it is named, and nothing beside it.
func TestProfiles(t *testing.T) {
	root := tree(t,
		"py/bin/python3", "py/lib/python3.11/os.py", "py/share/x",
		"venv/pyvenv.cfg", "venv/lib/python3.11/", "venv/bin/python3 -> ROOT/py/bin/python3",
		"venv/bin/server=#!ROOT/venv/bin/python3 -E\n", "venv/secrets",
		"node/bin/node", "node/lib/node_modules/srv/index.js", "node/bin/srv -> ../lib/node_modules/srv/index.js",
		"home/.local/bin/tool", "home/.local/lib/python3.11/", "home/.local/share/keyrings/x",
		"home/.local/share/uv/credentials/x", "home/.local/share/uv/python/", "home/.local/share/uv/tools/",
		"home/.cache/uv/",
		"home/bin/x", "home/lib/node_modules/",
		"npm/node_modules/srv/index.js", "npm/node_modules/.bin/srv -> ../srv/index.js", "npm/package.json",
		"pyenv/shims/python3=#!/bin/sh\n", "pyenv/versions/3.11/bin/python3",
		"host/other/bin/x", "host/other/lib/python3.11/", "ext/py -> ROOT/host/other/bin/x",
	)
	t.Setenv("HOME", root+"/home")
	at := Place{Dir: root + "/ext", State: root + "/host/ext", Private: []string{root + "/host"}}
	for _, tt := range []struct {
		profile, program string
		want             []string
	}{
		{sandbox.ProfilePython, "venv/bin/python3",
			[]string{"py/bin", "py/lib", "venv/bin", "venv/lib", "venv/pyvenv.cfg"}},
		{sandbox.ProfilePython, "venv/bin/server",
			[]string{"py/bin", "py/lib", "venv/bin", "venv/lib", "venv/pyvenv.cfg"}},
		{sandbox.ProfilePython, "home/.local/bin/tool", []string{"home/.local/bin", "home/.local/lib"}},
		{sandbox.ProfileUV, "py/bin/python3",
			[]string{
				"home/.cache/uv",
				"home/.local/share/uv/python",
				"home/.local/share/uv/tools",
				"py/bin",
				"py/lib",
			}},
		{sandbox.ProfileNode, "node/bin/srv", []string{"node/bin", "node/lib", "node/lib/node_modules"}},
		{sandbox.ProfileNode, "npm/node_modules/.bin/srv", []string{"npm/node_modules"}},
		{sandbox.ProfilePython, "pyenv/shims/python3", []string{"pyenv"}},
		{sandbox.ProfileNode, "home/bin/x", nil},
		{sandbox.ProfilePython, "ext/py", nil},
		{sandbox.ProfileGo, "py/bin/python3", nil},
		{sandbox.ProfileNone, "py/bin/python3", nil},
	} {
		p := &Policy{Profile: tt.profile, At: at}
		var got []string
		for _, r := range p.profileReads(filepath.Join(root, tt.program)) {
			rest, ok := strings.CutPrefix(r.Path, root+"/")
			if _, err := os.Stat(r.Path); ok && err == nil {
				got = append(got, rest)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(tt.want, slices.Compact(got)); diff != "" {
			t.Errorf("%s %s: %s", tt.profile, tt.program, diff)
		}
	}
}

// Of the command line of an interpreter, the packages of what it loads can be read, and nothing that the extension
// could have put in their place.
func TestLoads(t *testing.T) {
	root := tree(t,
		"apps/a/package.json", "apps/a/dist/index.js", "apps/a/node_modules/b/index.js", "apps/single.js",
		"apps/hook.mjs", "py/pyproject.toml", "py/src/srv/main.py", "home/notes/x.js", "home/package.json", "home/y.js",
		"ext/server.js", "ext/out.js -> ROOT/home/notes/x.js", "host/ext/out.js -> ROOT/apps/single.js",
		"host/config.js", "open/out.js -> ROOT/apps/a/dist/index.js",
	)
	t.Setenv("HOME", root+"/home")
	for _, tt := range []struct {
		profile, line string
		want          string
	}{
		{"node", "node ROOT/apps/a/dist/index.js ROOT/apps/single.js", "apps/a"},
		{"node", "node ../apps/a/dist/index.js", "apps/a"},
		{"node", "node ROOT/apps/a/node_modules/b/index.js", "apps/a/node_modules"},
		{"node", "node --import ROOT/apps/hook.mjs --env-file ROOT/home/y.js ROOT/apps/single.js",
			"apps/hook.mjs apps/single.js"},
		{"node", "node --require=ROOT/apps/single.js -e 1 ROOT/apps/hook.mjs", "apps/single.js"},
		{"node", "node ROOT/home/notes/x.js", "home/notes/x.js"},
		{"node", "node ROOT/home/y.js", "home/y.js"},
		{"node", "node server.js", ""},
		{"node", "node out.js", ""},
		{"node", "node ROOT/host/ext/out.js", ""},
		{"node", "node ROOT/open/out.js", ""},
		{"node", "node ROOT/host/config.js", ""},
		{"node", "node ROOT/gone.js", ""},
		{"python", "python3 -u ROOT/py/src/srv/main.py", "py"},
		{"python", "python3 -m srv ROOT/apps/single.js", ""},
		{"uv", "uv run --directory ROOT/py srv", "py"},
		{"go", "ROOT/apps/single.js ROOT/apps/a/dist/index.js", ""},
	} {
		p := &Policy{
			Profile: tt.profile,
			Read:    []string{root + "/ext", root + "/host/ext"},
			Write:   []string{root + "/open"},
			At:      Place{Dir: root + "/ext", State: root + "/host/ext", Private: []string{root + "/host"}},
		}
		got := p.Loads(strings.Fields(strings.ReplaceAll(tt.line, "ROOT", root)), root+"/ext")
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], root+"/")
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %s: %q, want %q", tt.profile, tt.line, got, tt.want)
		}
	}
}
