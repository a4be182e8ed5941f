package serve

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// greeted returns what a person reads when serve runs in dir, on a terminal of 80 columns and height lines.
func greeted(t *testing.T, dir string, f front, height int) string {
	t.Helper()
	t.Chdir(dir)
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{filepath.Join(dir, "extensions")}
	cfg.Extensions.Disabled = []string{"asleep"}
	log := slog.New(slog.DiscardHandler)
	h, err := exthost.Open(t.Context(), cfg, exthost.Options{
		Logger:   log,
		StateDir: t.TempDir(),
		Version:  "0.1.0",
		Environ:  []string{"PATH=" + os.Getenv("PATH"), "KIT_TOKEN=s3cret"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	g := greeting{c: &console.Console{Err: io.Discard}, front: f, took: 12 * time.Millisecond, width: 80}
	return string(g.fit(h, height))
}

func TestGreeting(t *testing.T) {
	processtest.Leaks(t)
	many := strings.Replace(kitManifest, `"kit"`, `"many"`, 1)
	for i := range 30 {
		many += fmt.Sprintf("[[tools]]\nname = \"tool_number_%02d\"\ndescription = \"Does it.\"\n", i)
	}
	dir := project(t, map[string]string{
		"extensions/kit/plugin.toml": strings.Replace(kitManifest, "[transport]",
			"[requires]\nenv = [\"KIT_TOKEN\"]\n[transport]", 1),
		"extensions/many/plugin.toml": many,
		"extensions/gated/plugin.toml": strings.Replace(kitManifest, `"kit"`, `"gated"`,
			1) + "[requires]\nbins = [\"no-such-program\", \"no-other-program-either\"]\nhint = { no-such-program = " +
			"\"apt install it\" }\n",
		"extensions/crash/plugin.toml": "[plugin]\nid = \"crash\"\nversion = \"0.1.0\"\n[capabilities]\ntools = " +
			"[\"x\"]\n[transport]\nscript = \"main.sh\"\n",
		"extensions/crash/main.sh": "printf 'boom \\033[2J\\n' >&2\necho 'ModuleNotFoundError: No module named " +
			"a_module_of_many_words, which this server needs' >&2\nexit 3\n",
		"extensions/asleep/plugin.toml": strings.Replace(kitManifest, `"kit"`, `"asleep"`, 1),
		"extensions/broken/plugin.toml": strings.Replace(kitManifest, `version`, `verison`, 1),
	})
	got := greeted(t, dir, front{url: "http://127.0.0.1:7800", operator: operatorToken{text: "M7Q"}}, 0)
	golden(t, "greeting.golden", got)
	if strings.ContainsAny(got, "\x1b\u009b") {
		t.Error("T14: an escape of an extension gets through")
	}
	if strings.Contains(got, "s3cret") {
		t.Error("it shows the value of a secret")
	}
	if !strings.Contains(got, "\n      stderr: ModuleNotFoundError: No module named a_module_of_many_words, which\n  "+
		"        this server needs\n") {
		t.Errorf("the last words are cut")
	}
	for line := range strings.Lines(got) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// Without extensions, the greeting says where to begin.
func TestGreetingSaysWhereToBegin(t *testing.T) {
	got := greeted(t, project(t, nil), front{}, 0)
	if !strings.Contains(got, "No extension was found") ||
		!strings.Contains(got, "one MCP client on stdin and stdout") {
		t.Error(got)
	}
}

// The greeting names the variable with the token that clients need.
func TestGreetingNamesTheTokenVariable(t *testing.T) {
	got := greeted(t, project(t, map[string]string{"extensions/kit/plugin.toml": kitManifest}),
		front{url: "http://127.0.0.1:1", token: "MY_TOKEN", exposed: true}, 0)
	if !strings.Contains(got, "\nto those who show the token in $MY_TOKEN, from other machines too\n") {
		t.Error(got)
	}
}

// TestGreetingFits checks that a terminal of 24 lines shows what runs and whether calls pass, however many extensions
// there are.
func TestGreetingFits(t *testing.T) {
	processtest.Leaks(t)
	const tools = "[[tools]]\nname = \"another\"\n[[tools]]\nname = \"third_of_them\"\n"
	for _, tt := range []struct {
		run, gated int
		shows      []string
	}{
		{1, 0, []string{"● x00 ", "another 22 · say 26", "READY: 1 extension with 3 tools"}},
		{8, 0, []string{"● x00 ", "● x07 ", "READY: 8 extensions with 24 tools"}},
		{8, 3, []string{"● x07 ", "○ x10 ", "skipped: the program no-such-program is not", "DEGRADED: extension x08"}},
		{60, 40, []string{"● 60 lazy: x00, x01", " more\n", "○ 40 skipped: x60, x61", "DEGRADED: extension x60"}},
	} {
		files := map[string]string{}
		for i := range tt.run + tt.gated {
			text := strings.Replace(kitManifest, `"kit"`, fmt.Sprintf(`"x%02d"`, i), 1) + tools
			if i >= tt.run {
				text += "[requires]\nbins = [\"no-such-program\"]\nhint = { no-such-program = \"apt install it\" }\n"
			}
			files[fmt.Sprintf("extensions/x%02d/plugin.toml", i)] = text
		}
		got := greeted(t, project(t, files), front{url: "http://127.0.0.1:1"}, 24)
		if n := strings.Count(got, "\n"); n > 23 {
			t.Errorf("%d lines:\n%s", n, got)
		}
		for _, part := range append(tt.shows, "serving http://127.0.0.1:1/mcp\n", "exthost connect") {
			if !strings.Contains(got, part) {
				t.Errorf("%d and %d extensions: no %q in\n%s", tt.run, tt.gated, part, got)
			}
		}
	}
}

// packageDir is the initial working directory; some tests change it.
var packageDir, _ = os.Getwd()

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join(packageDir, "testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-update writes it):\n%s", name, diff)
	}
}

// The greeting warns that other users of the machine are let in.
func TestGreetingWarnsOfOtherUsers(t *testing.T) {
	files := map[string]string{"extensions/kit/plugin.toml": kitManifest}
	const text = "to every user of this machine"
	got := greeted(t, project(t, files), front{url: "http://127.0.0.1:1", anyone: true}, 0)
	if !strings.Contains(got, text) {
		t.Errorf("it does not say so:\n%s", got)
	}
	if got := greeted(t, project(t, files), front{url: "http://127.0.0.1:1"}, 0); strings.Contains(got, text) {
		t.Errorf("it says so:\n%s", got)
	}
}

// The lines of extensions have the same columns, whatever protocol each speaks.
func TestGreetingIsAligned(t *testing.T) {
	g := greeting{c: &console.Console{Err: io.Discard}, width: 80, longest: 5, detail: inLine}
	for _, protocol := range []string{"native", "mcp 2025-11-25"} {
		g.extension(status.Extension{
			ID:        "notes",
			Version:   "0.1.0",
			Transport: "stdio",
			Protocol:  protocol,
			State:     string(supervisor.Ready),
		}, nil, nil)
	}
	lines := strings.Split(g.b.String(), "\n")
	if len(lines) < 2 || strings.Index(lines[0], "0 tools") != strings.Index(lines[1], "0 tools") {
		t.Errorf("the columns differ:\n%s", g.b.String())
	}
}
