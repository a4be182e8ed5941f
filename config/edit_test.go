package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost/config"
)

func TestSetListedChangesOneFile(t *testing.T) {
	for _, tt := range []struct {
		name         string
		files        map[string]string // the files before the edit
		environ      []string
		key, id      string
		listed       bool
		file, want   string // the file that changes and its new text; "" if none changes
		line         int
		fails        string
		configOption string
	}{
		{
			name:   "no file",
			key:    "disabled",
			id:     "x",
			listed: true,
			file:   "exthost.yaml",
			want:   "extensions:\n  disabled: [x]\n",
			line:   2,
		},
		{name: "the file there is", files: map[string]string{"exthost.toml": "# mine\n[log]\nlevel = \"info\"\n"},
			key: "allowlist", id: "x", listed: true,
			file: "exthost.toml", want: "# mine\n[log]\nlevel = \"info\"\n\n[extensions]\nallowlist = [\"x\"]\n",
			line: 6},
		{name: "split files", files: map[string]string{"config/log.yaml": "log: {level: info}\n"}, key: "disabled",
			id: "x", listed: true,
			file: "config/extensions.yaml", want: "extensions:\n  disabled: [x]\n", line: 2},
		{name: "where it stands",
			files: map[string]string{
				"config/log.yaml":        "extensions: {disabled: [a]} # odd\n",
				"config/extensions.toml": "",
			}, key: "disabled", id: "x", listed: true,
			file: "config/log.yaml", want: "extensions: {disabled: [a, x]} # odd\n", line: 1},
		{name: "out", files: map[string]string{"exthost.yaml": "extensions:\n  disabled:\n  - a\n  - x\n"},
			key: "disabled", id: "x",
			file: "exthost.yaml", want: "extensions:\n  disabled:\n  - a\n", line: 4},
		{
			name:   "so already",
			files:  map[string]string{"exthost.yaml": "extensions:\n  disabled: [x]\n"},
			key:    "disabled",
			id:     "x",
			listed: true,
			line:   2,
		},
		{name: "not there", key: "disabled", id: "x"},
		{name: "the user's stays", files: map[string]string{"user/exthost.yaml": "extensions: {disabled: [a]}\n"},
			key: "disabled", id: "x", listed: true,
			file: "exthost.yaml", want: "extensions:\n  disabled: [a, x]\n", line: 2},
		{name: "the user's stays, and does not count",
			files: map[string]string{"user/exthost.yaml": "extensions: {disabled: [x]}\n"}, key: "disabled", id: "x",
			file: "exthost.yaml", want: "extensions:\n  disabled: []\n", line: 1},
		{name: "--config", files: map[string]string{
			"other.yaml":   "log: {level: info}\n",
			"exthost.yaml": "extensions: {disabled: [a]}",
		}, configOption: "other.yaml", key: "disabled", id: "x", listed: true,
			file: "other.yaml", want: "log: {level: info}\n\nextensions:\n  disabled: [a, x]\n", line: 4},
		{
			name:    "a variable",
			environ: []string{"EXTHOST_EXTENSIONS_DISABLED=a"},
			key:     "disabled",
			id:      "x",
			listed:  true,
			fails:   "env EXTHOST_EXTENSIONS_DISABLED says",
		},
		{
			name:  "by hand",
			files: map[string]string{"exthost.yaml": "extensions:\n  disabled: [\"${A:-x}\"]\n"},
			key:   "disabled",
			id:    "x",
			fails: "exthost.yaml: extensions.disabled gets that from a variable",
		},
		{
			name:   "broken",
			files:  map[string]string{"exthost.yaml": "extensions: {disbled: []}\n"},
			key:    "disabled",
			id:     "x",
			listed: true,
			fails:  "exthost.yaml:1:14",
		},
	} {
		dir := t.TempDir()
		for name, text := range tt.files {
			path := filepath.Join(dir, name)
			_ = os.MkdirAll(filepath.Dir(path), 0o755)
			if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
				t.Fatal(err)
			}
		}
		o := config.LoadOptions{
			Dir:       dir,
			UserDir:   filepath.Join(dir, "user"),
			SystemDir: "none",
			Environ:   append([]string{}, tt.environ...),
		}
		if tt.configOption != "" {
			o.File = filepath.Join(dir, tt.configOption)
		}
		e, err := config.SetListed(o, tt.key, tt.id, tt.listed)
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.fails)
			}
			tt.file = ""
		} else if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if tt.fails == "" && (e.Changed != (tt.file != "") || e.Line != tt.line) {
			t.Errorf("%s: %+v, want line %d", tt.name, e, tt.line)
		}
		if tt.file == "" {
			continue
		}
		got, err := os.ReadFile(filepath.Join(dir, tt.file))
		if err != nil || string(got) != tt.want || e.File != filepath.Join(dir, tt.file) {
			t.Errorf("%s: %s, %v\nwant %s; %+v", tt.name, got, err, tt.want, e)
		}
		if info, err := os.Stat(filepath.Join(dir, tt.file)); err != nil || !e.Created && info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v, %v", tt.name, info.Mode(), err)
		}
		cfg, _, diags := loaded(o)
		if cfg == nil {
			t.Errorf("%s: %v", tt.name, diags)
		}
		if left, err := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
			t.Errorf("%s: %q is left, %v", tt.name, left, err)
		}
	}
}

// Editing through a symbolic link keeps the link.
func TestSetListedKeepsALink(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "real.yaml"), []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real.yaml", filepath.Join(dir, "exthost.yaml")); err != nil {
		t.Skip(err)
	}
	_, err := config.SetListed(config.LoadOptions{Dir: dir, UserDir: "none", SystemDir: "none", Environ: []string{}},
		"disabled", "x", true)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "real.yaml")); err != nil || !strings.Contains(string(got), "[x]") {
		t.Errorf("%s, %v", got, err)
	}
}

// Concurrent edits of one list are all kept.
func TestConcurrentSetListedIsKept(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no locks of directories")
	}
	dir := t.TempDir()
	o := config.LoadOptions{Dir: dir, UserDir: "none", SystemDir: "none", Environ: []string{}}
	var wg sync.WaitGroup
	const n = 16
	for i := range n {
		wg.Go(func() {
			if e, err := config.SetListed(o, "disabled", fmt.Sprint("x", i), true); err != nil || !e.Changed {
				t.Errorf("%d: %+v, %v", i, e, err)
			}
		})
	}
	wg.Wait()
	if cfg, _, diags := loaded(o); cfg == nil || len(cfg.Extensions.Disabled) != n {
		t.Errorf("%+v, %v", cfg, diags)
	}
}

// A read-only file is not edited, although it could be replaced.
func TestReadOnlyFileIsNotEdited(t *testing.T) {
	file := filepath.Join(t.TempDir(), "exthost.yaml")
	if err := os.WriteFile(file, []byte("# mine\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	_, err := config.SetListed(config.LoadOptions{
		Dir:       filepath.Dir(file),
		UserDir:   "none",
		SystemDir: "none",
		Environ:   []string{},
	}, "disabled", "x", true)
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "# mine\n" {
		t.Errorf("%s, %v", got, err)
	}
}
