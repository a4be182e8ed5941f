//go:build unix

package config_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/exthost/exthost/config"
)

func TestUnreadableFilesAreErrors(t *testing.T) {
	dir := write(t, map[string]string{"config.ini": "", "x/exthost.yaml/y": ""})
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "exthost.yaml")); err != nil {
		t.Fatal(err)
	}
	tests := map[string]config.LoadOptions{
		"error fifo.yaml: cannot be read: it is not a regular file\n": {
			File: filepath.Join(dir, "fifo.yaml"),
		},
		"error missing.yaml: there is no such file; exthost runs without any; exthost.yaml is the usual name\n": {
			File: filepath.Join(dir, "missing.yaml"),
		},
		"error config.ini: a configuration file ends in .yaml, .yml or .toml\n": {
			File: filepath.Join(dir, "config.ini"),
		},
		"error x/exthost.yaml: cannot be read: it is not a regular file\n": {
			Dir: filepath.Join(dir, "x"),
		},
		"error exthost.yaml: there is no such file; exthost runs without any; exthost.yaml is the usual name\n": {
			Dir: dir,
		},
	}
	for want, o := range tests {
		base := alone(t.TempDir())
		if o.Dir == "" {
			o.Dir = base.Dir
		}
		o.Environ, o.UserDir, o.SystemDir = base.Environ, base.UserDir, base.SystemDir
		if cfg, _, diags := loaded(o); cfg != nil || text(diags, dir) != want {
			t.Errorf("got %swant %s", text(diags, dir), want)
		}
	}
}
