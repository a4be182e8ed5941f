package check_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/authoring/check"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// What the sandbox denied is reported as complete lines for the table [sandbox].
func TestSandbox(t *testing.T) {
	if _, err := new(sandbox.Policy).Check(); err != nil {
		t.Skipf("NOT TESTED: %s: %v", t.Name(), err)
	}
	processtest.Leaks(t)
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	for _, name := range []string{"notes", "many/1", "many/2", "many/3", "out"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		script, table string
		lines         []string
	}{
		{"cat ~/notes ~/many/*; echo x >> ~/out; echo x > log; mkdir -p $EXTHOST_STATE_DIR/x",
			"[sandbox]\nread = [\"./data\"]\nwrite = [\"{state}\"]\n", []string{
				"its sandbox refused some accesses; if the extension needs them, set in [sandbox]:",
				`read = ["./data", "~/many", "~/notes"]`, `write = ["{state}", "~/out"]`,
				"refused, and cannot be asked for: DIR: the manifest is there, which says what it may touch; " +
					"write to " +
					"{state} or to a folder in it"}},
		{"echo x > $EXTHOST_STATE_DIR/x; cat $EXTHOST_STATE_DIR/x", "[sandbox]\n", []string{
			"its sandbox refused some accesses; if the extension needs them, set in [sandbox]:",
			`write = ["{state}"]`}},
		{"cat ~/notes; echo $((1+1)) > $EXTHOST_STATE_DIR/x && cat $EXTHOST_STATE_DIR/x",
			"[sandbox]\nread = [\"~/notes\"]\nwrite = [\"{state}\"]\n", nil},
	} {
		text := fmt.Sprintf("[plugin]\nid = \"subject\"\nversion = \"0.1.0\"\n[transport]\nkind = "+
			"\"exec\"\n[[tools]]\nname = \"run\"\ndescription = \"Runs.\"\ncommand = [\"sh\", \"-c\", %q]\n%s",
			tt.script, tt.table)
		results, err := examine(t, text, `{"calls": [{"tool": "run"}]}`, check.Options{Sandbox: true})
		if err != nil {
			t.Fatal(err)
		}
		r := probeOf(t, results, "sandbox")
		var lines []string
		for _, line := range strings.Split(r.Detail, "\n") {
			if !strings.HasPrefix(line, "which hosts") { // recording hosts needs the whole program
				lines = append(lines,
					regexp.MustCompile("/[^ ]*/TestSandbox[0-9]+/[0-9]+:").ReplaceAllString(line, "DIR:"))
			}
		}
		if diff := cmp.Diff(tt.lines, lines); diff != "" || r.Outcome != check.Hint {
			t.Errorf("%s: %s: %s\n%s", tt.script, r.Outcome, diff, r.Detail)
		}
	}
}

func probeOf(t *testing.T, results []check.Result, name string) check.Result {
	t.Helper()
	for _, r := range results {
		if r.Probe == name {
			return r
		}
	}
	t.Fatalf("there is no %s in %v", name, results)
	return check.Result{}
}
