package dev

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/exthost/exthost/internal/proc/containment/sweep"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// A build has the mark by which the control socket recognizes the descendants of hosts, as an extension does, even
// after it has left its parents.
func TestBuildsBearTheMark(t *testing.T) {
	processtest.Leaks(t)
	dir := t.TempDir()
	manifest := "[plugin]\nid = \"x\"\nversion = \"0.1.0\"\n[transport]\ncommand = \"./x\"\nprotocol = " +
		"\"mcp\"\n[dev]\nbuild = [\"sh\", \"-c\", \"sed -n 's/^Max file locks *[^ ]* *//p' /proc/self/limits > " +
		"limit\"]\n"
	if err := os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&builder{dir: dir}).build(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "limit"))
	number, _, _ := bytes.Cut(text, []byte(" "))
	limit, _ := strconv.ParseUint(string(number), 10, 64)
	if err != nil || !sweep.OwnMarks().Has(limit) {
		t.Errorf("%v: %s", err, text)
	}
}
