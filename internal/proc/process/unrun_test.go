package process

import (
	"os/exec"
	"strings"
	"testing"
)

// TestUnrun finds the program that a launcher could not run in the lines of those that are around.
func TestUnrun(t *testing.T) {
	for line, want := range map[string]string{
		"sh: 1: chrome-devtools-mcp: not found":                                "chrome-devtools-mcp",
		"sh: 1: exec: tsx: not found":                                          "tsx",
		"./start.sh: 12: uv: not found":                                        "uv",
		"/bin/sh: line 1: foo: command not found":                              "foo",
		"bash: line 1: exec: foo: not found":                                   "foo",
		"bash: line 1: ./run me: Permission denied":                            "./run me",
		"bash: ./x: /usr/bin/nope: bad interpreter: No such file or directory": "/usr/bin/nope",
		"bash: line 1: ./x: cannot execute: required file not found":           "./x",
		"zsh:1: command not found: foo":                                        "foo",
		"sh: foo: not found":                                                   "foo",
		"env: node: No such file or directory":                                 "node",
		"/usr/bin/env: ‘node’: No such file or directory":                      "node",
		"/usr/bin/env: 'python3.13': Permission denied":                        "python3.13",
		"env: can't execute 'node': No such file or directory":                 "node",
		"timeout: failed to run command ‘foo’: No such file or directory":      "foo",
		"Error: page not found":                                                "",
		"listening on port 80":                                                 "",
		strings.Repeat("x", maxUnrunLine) + ": not found":                      "",
		"npm error could not determine executable to run":                      "",
	} {
		e := Exit{Code: 127}
		if got := e.Unrun([]string{"Need to install", line, "", "npm notice"}); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	if got := (Exit{Code: 1}).Unrun([]string{"sh: 1: foo: not found"}); got != "" {
		t.Errorf("another exit status: %q", got)
	}
	for _, argv := range [][]string{
		{"sh", "-c", "no-such-program --now"},
		{"sh", "-c", "exec no-such-program"},
		{"env", "no-such-program"},
	} {
		out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		if err == nil {
			t.Skip("NOT TESTED: the words of this system's shell: it found no-such-program")
		}
		if got := (Exit{Code: 127}).Unrun(strings.Split(string(out), "\n")); got != "no-such-program" {
			t.Errorf("%q: %s: %q", argv, out, got)
		}
	}
}
