package dev

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/exthost/exthost/internal/process/processtest"
)

// A build is a child like extensions: it bears the mark by which the control socket knows them, also
// after it has left its parents.
func TestBuildsBearTheMark(t *testing.T) {
	processtest.Leaks(t)
	const mark = "NoNewPrivs:\t1"
	if own, err := os.ReadFile("/proc/self/status"); err != nil || bytes.Contains(own, []byte(mark)) {
		t.Skipf("NOT TESTED: this process has no_new_privs itself: %v", err)
	}
	dir := t.TempDir()
	text := "[plugin]\nid = \"x\"\nversion = \"0.1.0\"\n[transport]\ncommand = \"./x\"\nprotocol = \"mcp\"\n[dev]\nbuild = [\"sh\", \"-c\", \"cat /proc/self/status > status\"]\n"
	if err := os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&builder{dir: dir}).build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, err := os.ReadFile(filepath.Join(dir, "status")); err != nil || !bytes.Contains(status, []byte(mark)) {
		t.Errorf("%v: %s", err, status)
	}
}
