package packages

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/packages"
	"github.com/exthost/exthost/internal/packages/unpacked"
	"github.com/exthost/exthost/manifest"
)

func parsed(t *testing.T, text []byte) *manifest.Manifest {
	t.Helper()
	m, diags := manifest.Parse("plugin.toml", text)
	if m == nil {
		t.Fatalf("%v\n%s", diags, text)
	}
	return m
}

// An upgrade changes what is the package's, and keeps what the user wrote. A second one of the
// same package changes nothing.
func TestUpgraded(t *testing.T) {
	p := &packages.Package{Version: "1.0.0", Run: unpacked.Run{Command: "node", Args: []string{unpacked.Root + "/server.js", "${NOTES}"}, Env: map[string]string{"MODE": "${MODE:-fast}"}, Asks: []string{"NOTES"}}}
	text := string(manifestOf(p, "notes", []string{"--verbose"}, []string{"LANG"}))
	text = strings.Replace(text, `["node"]`, `["node", "git"] # mine`, 1) + "\n[sandbox]\nprofile = \"node\"\n"
	text = strings.Replace(text, "[transport]\n", "[transport]\ncwd = \"work\"\n", 1)
	p = &packages.Package{Version: "1.1.0", Run: unpacked.Run{Command: "node", Args: []string{unpacked.Root + "/main.js", "${NOTES}"}, Description: "Notes.", License: "MIT",
		Env: map[string]string{"MODE": "${MODE:-slow}", "LOG": "1"}, Asks: []string{"NOTES", "KEY"}}}
	for range 2 {
		args, asks := own(parsed(t, []byte(text)), p)
		after, err := upgraded([]byte(text), p, args, asks)
		if err != nil {
			t.Fatal(err)
		}
		text = string(after)
	}
	want := `# Written by exthost add :; exthost upgrade notes changes the version. Its files are those of exthost.lock.
[plugin]
description = "Notes."
id = "notes"
version = "1.1.0"

[transport]
cwd = "work"
command = "node"
args = ["${EXTHOST_PACKAGE}/main.js", "${NOTES}", "--verbose"]
protocol = "mcp"

[transport.env]
"LOG" = "1"
"MODE" = "${MODE:-slow}"

[requires]
bins = ["node", "git"] # mine
env = ["KEY", "LANG", "NOTES"]

[sandbox]
profile = "node"

[meta]
license = "MIT"
`
	if d := cmp.Diff(want, text); d != "" {
		t.Error(d)
	}
	parsed(t, []byte(text))
	for _, form := range []string{strings.Replace(text, `"1.1.0"`, `'1.1.0'`, 1), "meta.license = 'MIT'\n" + strings.Replace(text, "[meta]\nlicense = \"MIT\"\n", "", 1)} {
		if after, err := upgraded([]byte(form), &packages.Package{Version: "2.0.0", Run: unpacked.Run{Command: "node", Homepage: "https://h.example"}}, nil, nil); err == nil {
			t.Errorf("written in spite of its form:\n%s", after)
		}
	}
}
