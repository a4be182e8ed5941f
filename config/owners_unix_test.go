//go:build unix

package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
)

// Files that everybody may write are not loaded.
func TestFilesThatOthersMayWriteAreNotLoaded(t *testing.T) {
	dir := write(t, map[string]string{
		"project/exthost.yaml": "log: {level: debug}",
		"user/exthost.yaml":    "{}",
		"chosen.yaml":          "log: {level: warn}",
	})
	project, user := filepath.Join(dir, "project"), filepath.Join(dir, "user")
	load := func(environ ...string) (*config.Config, string) {
		cfg, _, diags := loaded(config.LoadOptions{
			Dir:       project,
			UserDir:   user,
			SystemDir: "none",
			Environ:   environ,
		})
		return cfg, text(diags, dir)
	}
	chmod := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(filepath.Join(dir, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	state := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	chmod("project/exthost.yaml", 0o666)
	if cfg, diags := load(); cfg != nil ||
		!strings.Contains(diags, "error project/exthost.yaml: not used: everybody may write this file of ") ||
		!strings.Contains(diags, "chmod o-w project/exthost.yaml") {
		t.Errorf("a file of everybody: %s", diags)
	}
	for name, environ := range map[string]string{
		"a safe directory": "EXTHOST_EXTENSIONS_SAFE_DIRECTORIES=/none:" + project,
		"all are safe":     "EXTHOST_EXTENSIONS_SAFE_DIRECTORIES=/",
	} {
		if cfg, diags := load(environ); cfg == nil || cfg.Log.Level != "debug" {
			t.Errorf("%s: %s", name, diags)
		}
	}
	state("user/exthost.yaml", "extensions: {safe_directories: [../project]}")
	if cfg, diags := load(); cfg == nil || cfg.Log.Level != "debug" {
		t.Errorf("the user's safe directory: %s", diags)
	}
	if cfg, diags := load("EXTHOST_EXTENSIONS_SAFE_DIRECTORIES=/none"); cfg != nil {
		t.Errorf("the variable replaces the user's: %s", diags)
	}
	state("user/exthost.yaml", "{}")
	state("project/exthost.yaml", "extensions: {safe_directories: [/]}")
	if cfg, diags := load(); cfg != nil {
		t.Errorf("a project says that its own file counts: %s", diags)
	}
	chmod("project/exthost.yaml", 0o644)
	if cfg, diags := load(); cfg == nil || len(cfg.Extensions.SafeDirectories) > 0 ||
		!strings.Contains(diags, "project/exthost.yaml:1:") ||
		!strings.Contains(diags, "a project's file cannot say whose files count") {
		t.Errorf("a project's safe directories: %s", diags)
	}
	for _, content := range []string{
		"hooks: [{event: before_tool_call, command: ['./hook']}]",
		"plugins: [{name: x, kind: native, category: audit, cmd: [node, hook]}]",
	} {
		state("project/exthost.yaml", content)
		state("project/hook", "")
		chmod("project/hook", 0o777)
		if cfg, diags := load(); cfg != nil ||
			!strings.Contains(diags, "its command does not run: everybody may write project/hook") {
			t.Errorf("%s: %s", content, diags)
		}
		chmod("project/hook", 0o755)
		if cfg, diags := load(); cfg == nil {
			t.Errorf("%s: %s", content, diags)
		}
	}
	state("project/exthost.yaml", "extensions: {entries: {notes: {env_file: vars}}}")
	state("project/vars", "NODE_OPTIONS=--require=evil")
	chmod("project/vars", 0o666)
	if cfg, diags := load(); cfg == nil || len(cfg.Extensions.Entries["notes"].FileEnv) > 0 ||
		len(cfg.Extensions.Problems("notes")) != 1 {
		t.Errorf("variables of everybody: %s", diags)
	}
	chmod("user", 0o777)
	if cfg, diags := load(); cfg != nil ||
		!strings.Contains(diags, "error user/exthost.yaml: not used: everybody may write the directory user") {
		t.Errorf("a directory of everybody: %s", diags)
	}
	chmod("user", 0o755)
	chmod("chosen.yaml", 0o662)
	cfg, _, diags := loaded(config.LoadOptions{
		File:      filepath.Join(dir, "chosen.yaml"),
		Dir:       project,
		UserDir:   "none",
		SystemDir: "none",
		Environ:   []string{},
	})
	if cfg != nil {
		t.Errorf("a chosen file: %s", text(diags, dir))
	}
}
