package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The diagnostics of each broken file equal its golden file, and Load returns no configuration.
func TestDiagnosticsOfBrokenFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.[yt]*ml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			o := alone(t.TempDir())
			o.File = file
			cfg, origins, diags := loaded(o)
			if cfg != nil || origins != nil {
				t.Error("a broken file was loaded")
			}
			got, golden := text(diags, filepath.Dir(file)), file+".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Each of these files is an error with a position.
func TestInvalidFilesHavePositions(t *testing.T) {
	tests := []struct{ name, yaml, want string }{
		{"another word for a key", "plugins: [{name: p, kind: native, category: audit, command: [./x]}]",
			`exthost.yaml:1:52: unknown key "command" in plugins[0]; did you mean "cmd"?`},
		{"unknown key", "log: {levle: info}", `exthost.yaml:1:7: unknown key "levle" in log; did you mean "level"?`},
		{"misspelt required key", "plugins: [{name: a, catagory: content, builtin: redact}]",
			`exthost.yaml:1:21: unknown key "catagory" in plugins[0]; did you mean "category"?`},
		{"duration without a unit", "extensions: {defaults: {call_timeout: 10}}",
			`exthost.yaml:1:39: extensions.defaults.call_timeout: 10 has no unit; write "10s", or call_timeout_ms: 10`},
		{"negative duration", "extensions: {defaults: {call_timeout: -10s}}",
			`exthost.yaml:1:39: extensions.defaults.call_timeout: -10s is negative; write 0 or more`},
		{"a name that no header has", "governance: {headers: [X-Tenant, a b]}",
			`exthost.yaml:1:34: governance.headers[1]: "a b" is not a header's name; such as X-Api-Key`},
		{"no is no boolean", "extensions: {enabled: no}",
			`exthost.yaml:1:23: extensions.enabled: want true or false, not "no"; write false`},
		{"the type of a destination under kind", "destinations: {a: {kind: streamable-http, url: 'http://x'}}",
			`exthost.yaml:1:20: unknown key "kind" in destinations.a; write type: http`},
		{"the type of a destination under transport", "destinations: {a: {transport: ws, url: 'http://x'}}",
			`exthost.yaml:1:20: unknown key "transport" in destinations.a; write type: sse, http or stdio`},
		{"a misspelt type", "destinations: {a: {type: ssee, url: 'http://x'}}",
			`exthost.yaml:1:26: destinations.a.type: unknown value "ssee"; did you mean "sse"?`},
		{"anchors bomb", bomb(),
			`exthost.yaml:1:52: more than 50000 values, aliases counted as often as they are used`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := write(t, map[string]string{"exthost.yaml": tt.yaml})
			cfg, _, diags := loaded(alone(dir))
			if got, want := text(diags, dir), "error "+tt.want+"\n"; cfg != nil || got != want {
				t.Errorf("got %swant %s", got, want)
			}
			for _, d := range diags {
				if d.Code != "config_invalid" {
					t.Errorf("code = %s", d.Code)
				}
			}
		})
	}
}

// bomb returns a "billion laughs" document.
func bomb() string {
	var b strings.Builder
	b.WriteString("bomb: {a0: &a0 [x, x, x, x, x, x, x, x, x, x]")
	for i := range 9 {
		fmt.Fprintf(&b, ", a%d: &a%d [%s]", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	return b.String() + "}"
}

// Documents that expand without bound are refused before they are expanded.
func TestBombsAreRefused(t *testing.T) {
	tests := []struct{ name, file, content, want string }{
		{"dotted key", "exthost.toml", strings.Repeat("a.", 5000) + "a = 1", "a key of more than 16 parts"},
		{"dotted table", "exthost.toml", "[" + strings.Repeat("a.", 5000) + "a]", "a key of more than 16 parts"},
		{"TOML arrays", "exthost.toml", "a = " + strings.Repeat("[", 500_000), "nested more than 64 deep"},
		{"TOML tables", "exthost.toml", "a = " + strings.Repeat("{a.a.a.a = ", 50_000), "nested more than 64 deep"},
		{"TOML values", "exthost.toml", "a = [" + strings.Repeat("1,", 200_000) + "]", "more than 50000 values"},
		{"YAML lists", "exthost.yaml", strings.Repeat("[", 500_000), "exceeded max depth"},
		{"YAML maps", "exthost.yaml", strings.Repeat("{a: ", 5000) + strings.Repeat("}", 5000),
			"nested more than 64 deep"},
		{"size", "exthost.yaml", strings.Repeat("# hi\n", 300_000), "more than a configuration file may have"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := alone(write(t, map[string]string{tt.file: tt.content}))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			cfg, _, diags := loaded(o)
			runtime.ReadMemStats(&after)
			if got := text(diags, ""); cfg != nil || !strings.Contains(got, tt.want) {
				t.Errorf("got %.300swant %s", got, tt.want)
			}
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 64 {
				t.Errorf("%d MiB allocated, want at most 64", used)
			}
		})
	}
}

func TestUnsuitableFilesAreRefused(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"defined twice", map[string]string{
			"config/exthost.yaml": "log: {level: info}\nserver: {metrics: true}",
			"config/log.toml":     "[log]\nformat = \"json\"\nlevel = \"warn\"",
			"config/server.yml":   "server: {listen: ':1'}",
			"config/plugins.yaml": "plugins: []",
			"config/hooks.yaml":   "plugins: []",
		}, "error config/hooks.yaml:1:1: plugins is already defined at config/plugins.yaml:1; keep one of the two\n" +
			"error config/log.toml:3:1: log.level is already defined at config/exthost.yaml:1; keep one of the two\n"},
		{"two formats", map[string]string{"exthost.yaml": "", "exthost.toml": ""},
			"error exthost.toml: exthost.yaml exists as well; keep one of the two\n"},
		{"split beside whole", map[string]string{"exthost.yaml": "", "config/log.yaml": "oops"},
			"warn config/log.yaml: not read because exthost.yaml exists; move it there, or split all of it\n"},
		{"other names", map[string]string{"config/other.yaml": "oops", "extensions.yaml": "oops"}, ""},
		{"config is a file", map[string]string{"config": "oops"}, ""},
		{"byte order mark and nothing", map[string]string{"exthost.yaml": "\ufeff# nothing\n", "config/x": ""}, ""},
		{"null", map[string]string{"exthost.yaml": "~"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := write(t, tt.files)
			cfg, _, diags := loaded(alone(dir))
			if got := text(diags, dir); got != tt.want || (cfg == nil) != strings.HasPrefix(tt.want, "error") {
				t.Errorf("got:\n%swant:\n%s", got, tt.want)
			}
		})
	}
}

// Without CheckCEL, Load checks all policies but those of `builtin: cel`, which exthost.Open checks.
func TestLoadLeavesCELToOpen(t *testing.T) {
	o := alone(write(t, map[string]string{
		"exthost.yaml": "plugins: [{name: c, category: authorization, builtin: cel, config: {when: tol}}]\n",
	}))
	if cfg, _, diags := loaded(o); cfg != nil ||
		!strings.Contains(text(diags, ""), "plugins[0].config.when: 1:1: undeclared reference to 'tol'") {
		t.Errorf("with CheckCEL: %v", diags)
	}
	o.CheckCEL = nil
	if cfg, _, diags := loaded(o); cfg == nil || len(cfg.Plugins) != 1 || len(diags) > 0 {
		t.Errorf("without CheckCEL: %v", diags)
	}
}
