package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance/builtin"
)

// written are the keys of paths that the host writes: how a file states each, and the field that confines it.
var written = map[string]struct {
	states string
	within func(*config.Config) (path, dir string)
}{
	"log.file": {`log: {file: %q}`, func(c *config.Config) (string, string) { return c.Log.File, c.Log.Within }},
	"audit.path": {`audit: {path: %q}`,
		func(c *config.Config) (string, string) { return c.Audit.Path, c.Audit.Within }},
	"record.file": {`record: {file: %q}`,
		func(c *config.Config) (string, string) { return c.Record.File, c.Record.Within }},
	"plugins.config.file": {`plugins: [{name: pins, category: authorization, builtin: pin, config: {file: %q}}]`,
		func(c *config.Config) (string, string) {
			return builtin.Writes(&c.Plugins[0]), c.Plugins[0].Within
		}},
}

// read are the keys of paths that the host only reads or uses as a working directory.
var read = []string{
	"extensions.search_paths", "extensions.safe_directories", "extensions.entries.env_file", "extensions.entries.roots",
	"server.auth.token_file", "server.tls.cert", "server.tls.key",
	"destinations.secrets_file", "cluster.creds", "cluster.hub.dir", "cluster.join", "cluster.nkey", "cluster.tls.ca",
	"cluster.tls.cert", "cluster.tls.key", "destinations.cwd", "destinations.roots", "plugins.cwd", "plugins.mcp.cwd",
	"secrets.path", "secrets.identity", "secrets.logins",
}

// Every field with a path is in one of the two lists, so that a new one cannot go unconfined by mistake.
func TestEveryPathIsReadOrBound(t *testing.T) {
	var found []string
	var walk func(at string, typ reflect.Type)
	walk = func(at string, typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		for f := range typ.Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key == "-" || !f.IsExported() {
				continue
			}
			path := strings.TrimPrefix(at+"."+key, ".")
			if f.Tag.Get("path") == "true" {
				found = append(found, path)
			}
			walk(path, f.Type)
		}
	}
	walk("", reflect.TypeFor[config.Config]())
	known := slices.Clone(read)
	for key := range written {
		if key != "plugins.config.file" { // the config of a policy has no type here
			known = append(known, key)
		}
	}
	slices.Sort(known)
	slices.Sort(found)
	if !slices.Equal(found, known) {
		t.Errorf("paths %q, known are %q: add new ones to read, or to written and to loader.confine", found, known)
	}
}

// A project's file can only name files in its own directory to be written; the user's file and --config may name
// any.
func TestProjectsWriteBelowTheirDirectory(t *testing.T) {
	for key, w := range written {
		for _, path := range []string{"/etc/passwd", "../x", "logs/../../x", "~/.bashrc-not-expanded/../../../x", "."} {
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "exthost.yaml"), fmt.Sprintf(w.states, path))
			cfg, _, diags := loaded(config.LoadOptions{
				Dir:       dir,
				UserDir:   "none",
				SystemDir: "none",
				Environ:   []string{},
			})
			if cfg != nil || !strings.Contains(fmt.Sprint(diags),
				"can only name files of its directory to be written") {
				t.Errorf("%s: %s: %v", key, path, diags)
			}
		}
		dir, other := t.TempDir(), t.TempDir()
		outside := fmt.Sprintf(w.states, filepath.Join(other, "file"))
		project, user := filepath.Join(dir, "exthost.yaml"), filepath.Join(other, "exthost.yaml")
		writeFile(t, project, fmt.Sprintf(w.states, "logs/file"))
		load := func(o config.LoadOptions) (string, string) {
			t.Helper()
			o.Dir, o.SystemDir, o.Environ = dir, "none", []string{}
			cfg, _, diags := loaded(o)
			if cfg == nil {
				t.Fatalf("%s: %v", key, diags)
			}
			return w.within(cfg)
		}
		if path, within := load(config.LoadOptions{UserDir: "none"}); path != filepath.Join(dir, "logs", "file") ||
			within != dir {
			t.Errorf("%s: %s within %q", key, path, within)
		}
		if path, within := load(config.LoadOptions{UserDir: "none", File: project}); path !=
			filepath.Join(dir, "logs", "file") || within != "" {
			t.Errorf("%s, named by --config: %s within %q", key, path, within)
		}
		writeFile(t, project, "")
		writeFile(t, user, outside)
		if path, within := load(config.LoadOptions{UserDir: other}); path != filepath.Join(other, "file") ||
			within != "" {
			t.Errorf("%s, of the user: %s within %q", key, path, within)
		}
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
