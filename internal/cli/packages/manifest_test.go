package packages

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/supply/packages"
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

// An upgrade changes the package's settings and keeps what the user wrote. Upgrading to the same version again changes
// nothing.
func TestUpgradeKeepsTheUsersPart(t *testing.T) {
	p := &packages.Package{
		Version: "1.0.0",
		Run: packages.Run{
			Command: "node",
			Args:    []string{packages.Root + "/server.js", "${NOTES}"},
			Env:     map[string]string{"MODE": "${MODE:-fast}"},
			Asks:    []string{"NOTES"},
		},
	}
	text := string(manifestOf(p, "notes", users{args: []string{"--verbose"}, asks: []string{"LANG"}}))
	text = strings.Replace(text, `["node"]`, `["node", "git"] # mine`, 1) + "\n[sandbox]\nprofile = \"node\"\n"
	text = strings.Replace(text, "[transport]\n", "[transport]\ncwd = \"work\"\n", 1)
	p = &packages.Package{
		Version: "1.1.0",
		Run: packages.Run{
			Command:     "node",
			Args:        []string{packages.Root + "/main.js", "${NOTES}"},
			Description: "Notes.",
			License:     "MIT",
			Env:         map[string]string{"MODE": "${MODE:-slow}", "LOG": "1"},
			Asks:        []string{"NOTES", "KEY"},
		},
	}
	for range 2 {
		after, err := upgraded([]byte(text), p, usersOf(parsed(t, []byte(text)), p))
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
	for _, form := range []string{
		strings.Replace(text, `"1.1.0"`, `'1.1.0'`, 1),
		"meta.license = 'MIT'\n" + strings.Replace(text, "[meta]\nlicense = \"MIT\"\n", "", 1),
	} {
		next := &packages.Package{
			Version: "2.0.0",
			Run:     packages.Run{Command: "node", Homepage: "https://h.example"},
		}
		if after, err := upgraded([]byte(form), next, users{}); err == nil {
			t.Errorf("written in spite of its form:\n%s", after)
		}
	}
}

// If the command is a program of the package itself, the arguments after those of the package belong to the user.
func TestUpgradeKeepsArgumentsOfABinary(t *testing.T) {
	p := &packages.Package{
		Version: "1.0.0",
		Run:     packages.Run{Command: packages.Root + "/bin/server", Args: []string{"serve"}},
	}
	m := parsed(t, manifestOf(p, "notes", users{args: []string{"--verbose"}}))
	if got := usersOf(m, p); !slices.Equal(got.args, []string{"--verbose"}) {
		t.Errorf("%q", got.args)
	}
}

// A plugin.toml in any valid form is understood, or refused.
func TestUpgradeReadsAnyForm(t *testing.T) {
	p := &packages.Package{
		Version: "1.1.0",
		Run:     packages.Run{Command: "node", Args: []string{packages.Root + "/main.js"}},
	}
	const head = "[plugin]\nid = \"notes\"\nversion = \"1.0.0\"\n"
	for name, form := range map[string]string{
		"lines that end as on Windows": strings.ReplaceAll(head+"[transport]\ncommand = \"npx\"\nargs = [\"notes\"]\n",
			"\n", "\r\n"),
		"no arguments": head + "[transport]\ncommand = \"npx\"\n",
		"a comment behind": head +
			"[transport] # [plugin]\ncommand = \"npx\" # node\nargs = [\"notes\"] # [\"x\"]\n",
		"several lines": head + "[transport]\ncommand = \"npx\"\nargs = [\n  \"notes\"\n]\n",
		"a text with a table": head +
			"description = \"\"\"\n[transport]\n[requires]\n\"\"\"\n[transport]\ncommand = \"npx\"\n",
		"a table of a text alone": head +
			"description = \"\"\"\n[requires]\n\"\"\"\n[transport]\ncommand = \"npx\"\nargs = [\"notes\"]\n",
		"an inline table":    "transport = { command = \"npx\", args = [\"notes\"] }\n" + head,
		"dotted keys":        "transport.command = \"npx\"\ntransport.args = [\"notes\"]\n" + head,
		"comments in a list": head + "[transport]\ncommand = \"npx\"\nargs = [\n  \"notes\", # mine\n]\n",
		"literal strings":    head + "[transport]\ncommand = 'npx'\nargs = ['notes']\n",
		"an env of one line": head +
			"[transport]\ncommand = \"npx\"\nargs = [\"notes\"]\nenv = { A = \"]\\n[requires]\" }\n",
	} {
		after, err := upgraded([]byte(form), p,
			users{args: []string{"it's \"quoted\" # $HOME\n"}, bins: []string{"git"}})
		if refused := map[string]string{
			"a text with a table":     "[transport] of plugin.toml is no table",
			"a table of a text alone": "[requires] of plugin.toml is no table",
			"an inline table":         "no line [transport]",
			"dotted keys":             "no line [transport]",
			"comments in a list":      "transport.args",
			"literal strings":         "transport.command",
		}[name]; refused != "" || err != nil {
			if refused == "" || err == nil || !strings.Contains(err.Error(), refused) {
				t.Errorf("%s: %v, want %q", name, err, refused)
			}
			continue
		}
		m := parsed(t, after)
		argv := []string{"node", packages.Root + "/main.js", "it's \"quoted\" # $HOME\n"}
		d := cmp.Diff(argv, m.Transport.CommandLine())
		if d != "" || m.Plugin.Version != "1.1.0" || len(m.Requires.Bins) != 2 {
			t.Errorf("%s: %s\n%s", name, d, after)
		}
	}
}
