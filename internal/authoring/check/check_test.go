package check_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/authoring/check"
	"github.com/exthost/exthost/internal/testing/processtest"
)

const fixture = `{"calls": [
	{"tool": "echo", "arguments": {"text": "x"}, "text": "x"},
	{"tool": "echo", "arguments": {"text": "x", "n": 1}, "text": "x1"},
	{"tool": "wait", "cancel": true}
]}`

// examine checks an extension with this manifest and check.json.
func examine(t *testing.T, manifest, fixture string, o check.Options) ([]check.Result, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"plugin.toml": manifest, "check.json": fixture} {
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{dir}
	h, err := exthost.Open(t.Context(), cfg,
		exthost.Options{
			Logger:   slog.New(slog.DiscardHandler),
			StateDir: t.TempDir(),
			Mode:     exthost.Mode{StartLazy: true},
		})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	s := h.Status()
	if len(s.Extensions) != 1 {
		t.Fatalf("extensions: %v, %v", s.Extensions, s.Diagnostics)
	}
	return check.Run(context.Background(), h, s.Extensions[0], o)
}

// manifestOf returns the manifest of a child with a fault.
func manifestOf(t *testing.T, fault string) string {
	t.Helper()
	path, _ := processtest.Script(t, "")
	start, grace := "60s", "5s"
	switch fault { // lower the limit that the fault would wait for
	case "makes texts of ids":
		start = "10s"
	case "outlives stdin":
		grace = "500ms"
	}
	return fmt.Sprintf(`
[plugin]
id = "subject"
version = "0.1.0"
description = "Is examined."
[capabilities]
tools = ["echo", "wait"]
[transport]
command = %q
env = { %s = %q, GORACE = "atexit_sleep_ms=0" }
[runtime]
shutdown_grace = %q
start_timeout = %q
`, path, processtest.ScriptVar, "native "+fault, grace, start)
}

func failed(results []check.Result) (names []string) {
	for _, r := range results {
		if r.Outcome == check.Fail {
			names = append(names, r.Probe)
		}
	}
	return names
}

// TestFaults has one child per fault and the probes that must fail. The child without a fault passes all probes.
func TestFaults(t *testing.T) {
	processtest.Leaks(t)
	for fault, want := range map[string][]string{
		"none":                          nil,
		"is noisy before the handshake": {"handshake", "stdout"},
		"prints":                        {"stdout"},
		"forgets jsonrpc":               {"start"},
		"answers twice":                 {"stdout"},
		"answers notifications":         {"notifications"},
		"makes texts of ids":            {"start"},
		"takes any method":              {"unknown-method"},
		"takes any tool":                {"unknown-tool", "missing-params"},
		"knows no ping":                 {"ping"},
		"knows no shutdown":             {"shutdown"},
		"dies of a large line":          {"large"},
		"rounds":                        {"big-integers"},
		"loses characters":              {"unicode"},
		"goes back":                     {"progress"},
		"tells everybody its progress":  {"progress"},
		"ignores cancellation":          {"cancel"},
		"outlives stdin":                {"shutdown", "eof"},
		"ends badly":                    {"shutdown"},
		"offers another tool":           {"offer", "relist"},
		"describes nothing":             {"descriptions", "relist"},
		"contradicts itself":            {"annotations", "relist"},
		"misspells a type":              {"offer", "schemas", "relist"},
		"requires what is not there":    {"schemas", "calls", "relist"},
		"leaves a process":              {"orphans"},
	} {
		if runtime.GOOS != "linux" && fault == "leaves a process" {
			continue
		}
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			results, err := examine(t, manifestOf(t, fault), fixture, check.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, failed(results)); diff != "" {
				t.Errorf("(-want +failed):\n%s%s", diff, details(results))
			}
		})
	}
}

// TestEndsByItself checks an extension that ends when it is left alone. How far the probes come by then depends on the
// machine.
func TestEndsByItself(t *testing.T) {
	t.Parallel()
	results, err := examine(t, manifestOf(t, "ends when it is left alone"), fixture, check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(failed(results), "stays") || !strings.Contains(details(results), "ended by themselves") {
		t.Errorf("what failed:\n%s", details(results))
	}
}

func details(results []check.Result) string {
	var b strings.Builder
	for _, r := range results {
		if r.Outcome == check.Fail || r.Outcome == check.Skip {
			fmt.Fprintf(&b, "%s %s: %s\n", r.Outcome, r.Probe, r.Detail)
		}
	}
	return b.String()
}

func outcomeOf(t *testing.T, results []check.Result, probe string) check.Outcome {
	t.Helper()
	i := slices.IndexFunc(results, func(r check.Result) bool { return r.Probe == probe })
	if i < 0 {
		t.Fatalf("there is no %s", probe)
	}
	return results[i].Outcome
}

func TestHints(t *testing.T) {
	processtest.Leaks(t)
	for fault, probe := range map[string]string{
		"takes any arguments": "invalid-arguments",
		"ignores SIGTERM":     "sigterm",
	} {
		results, err := examine(t, manifestOf(t, fault), fixture, check.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := outcomeOf(t, results, probe); got != check.Hint || len(failed(results)) > 0 {
			t.Errorf("%s: %s is %s\n%s", fault, probe, got, details(results))
		}
	}
}

// Tools without permission are not called.
func TestNothingIsCalledUnasked(t *testing.T) {
	processtest.Leaks(t)
	dir := t.TempDir()
	manifest := fmt.Sprintf(`
[plugin]
id = "subject"
version = "0.1.0"
[transport]
kind = "exec"
[[tools]]
name = "remove"
description = "Removes something that matters."
command = ["touch", %q]
`, filepath.Join(dir, "called"))
	results, err := examine(t, manifest, "", check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "called")); err == nil {
		t.Error("it was called")
	}
	if got := outcomeOf(t, results, "calls"); got != check.Skip {
		t.Errorf("calls: %s", got)
	}
}

func TestPlaceholders(t *testing.T) {
	processtest.Leaks(t)
	const head = "[plugin]\nid = \"subject\"\nversion = \"0.1.0\"\n[transport]\nkind = \"exec\"\n[[tools]]\nname = " +
		"\"f\"\ndescription = \"Says what it is told.\"\n"
	for name, tt := range map[string]struct {
		tool string
		want check.Outcome
	}{
		"no property": {`command = ["echo", "{a}"]`, check.Fail},
		"not required": {"command = [\"echo\", \"{a}\"]\ninput_schema = { type = \"object\", properties = { a = { " +
			"type = \"string\" } } }", check.Fail},
		"an option": {"command = [\"echo\", \"{a}\"]\ninput_schema = { type = \"object\", required = [\"a\"], " +
			"properties = { a = { type = \"string\" } } }", check.Hint},
		"no option": {"command = [\"echo\", \"--\", \"{a}\"]\ninput_schema = { type = \"object\", required = " +
			"[\"a\"], properties = { a = { type = \"string\" } } }", check.Pass},
		"a number": {"command = [\"echo\", \"{a}\"]\ninput_schema = { type = \"object\", required = [\"a\"], " +
			"properties = { a = { type = \"integer\" } } }", check.Pass},
		"part of it is": {`command = ["echo", "--name={a}"]`, check.Hint},
	} {
		results, err := examine(t, head+tt.tool+"\n", "", check.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := outcomeOf(t, results, "placeholders"); got != tt.want {
			t.Errorf("%s: %s\n%s", name, got, details(results))
		}
	}
}

func TestFixtures(t *testing.T) {
	processtest.Leaks(t)
	for text, want := range map[string]string{
		`{"calls": [{"tool": "echo", "args": {}}]}`:  `unknown field "args"`,
		`{"calls": [{"text": "x"}]}`:                 "call 1 has no tool",
		`{"calls": [null]}`:                          "call 1 has no tool",
		`{"calls": [{"tool": "x", "arguments": 5}]}`: "the arguments of call 1 are 5",
		`[]`: "cannot unmarshal",
	} {
		if _, err := examine(t, manifestOf(t, "none"), text, check.Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	results, err := examine(t, manifestOf(t, "none"), `{"calls": [
		{"tool": "nothing"},
		{"tool": "echo", "arguments": {"text": "x"}, "text": "y"},
		{"tool": "echo", "arguments": {"text": "x"}, "contains": "y"},
		{"tool": "echo", "arguments": {"text": "x"}, "structured": {}},
		{"tool": "echo", "arguments": {"text": "x"}, "error": true},
		{"tool": "echo", "arguments": {"text": 1}}
	]}`, check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(results, func(r check.Result) bool { return r.Probe == "calls" })
	if lines := strings.Split(results[i].Detail, "\n"); results[i].Outcome != check.Fail || len(lines) < 6 {
		t.Errorf("%s: %s", results[i].Outcome, results[i].Detail)
	}
}

func TestExpected(t *testing.T) {
	processtest.Leaks(t)
	e, err := check.ParseExpected("known", "# what we know of\nunicode # not ours\nping\n\ncalls")
	if err != nil {
		t.Fatal(err)
	}
	results, err := examine(t, manifestOf(t, "loses characters"), fixture, check.Options{Expected: e})
	if err != nil {
		t.Fatal(err)
	}
	if outcomeOf(t, results, "unicode") != check.Known || !slices.Equal(failed(results), []string{"calls", "ping"}) {
		t.Error(details(results))
	}
	if _, err := check.ParseExpected("known", "\nunicod"); err == nil ||
		err.Error() != `known:2: there is no probe "unicod", did you mean "unicode"?` {
		t.Error(err)
	}
}
