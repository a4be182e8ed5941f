package agentplugin

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/manifest"
)

// A file for which the host has no descriptor left is reported with its path. That says nothing about the package.
func TestExhausted(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "plugin.json", pluginJSON(""))
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	p := Read(dir, Options{})
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if len(p.Diagnostics) != 1 || p.Diagnostics[0].Code != manifest.CodeExhausted ||
		p.Diagnostics[0].Path != filepath.Join(dir, "plugin.json") || !p.Identity.Rejected {
		t.Errorf("%+v", p)
	}
}
