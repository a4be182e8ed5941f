package config_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/celpolicy"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// write creates the files in a new directory and returns the directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// alone reads nothing but dir.
func alone(dir string, environ ...string) config.LoadOptions {
	return config.LoadOptions{
		Dir:       dir,
		Environ:   slices.Concat([]string{}, environ),
		UserDir:   "none",
		SystemDir: "none",
		CheckCEL:  celpolicy.Check,
	}
}

// loaded is [config.Load] with errors and warnings in one list.
func loaded(o config.LoadOptions) (*config.Config, *config.Origins, []protocol.Diagnostic) {
	cfg, err := config.Load(o)
	if refused, ok := errors.AsType[config.Refused](err); ok {
		return cfg, nil, refused
	}
	return cfg, cfg.Origins, cfg.Warnings
}

func mustLoad(t *testing.T, o config.LoadOptions) (*config.Config, *config.Origins) {
	t.Helper()
	cfg, origins, diags := loaded(o)
	if cfg == nil {
		t.Fatalf("not loaded:\n%s", text(diags, ""))
	}
	return cfg, origins
}

// text renders diagnostics one a line, with dir cut from their paths.
func text(diags []protocol.Diagnostic, dir string) string {
	var b strings.Builder
	for _, d := range diags {
		b.WriteString(string(d.Level) + " " + d.String() + "\n")
	}
	if dir == "" {
		return b.String()
	}
	return filepath.ToSlash(strings.ReplaceAll(b.String(), dir+string(filepath.Separator), ""))
}

func TestLoadWithoutFiles(t *testing.T) {
	dir := t.TempDir()
	cfg, origins := mustLoad(t, alone(dir))
	want := config.Default()
	want.Extensions.SearchPaths = []string{filepath.Join(dir, "extensions")}
	diff := cmp.Diff(want, cfg, cmpopts.IgnoreFields(config.Config{}, "Files", "Project", "Origins"),
		cmpopts.IgnoreUnexported(config.Config{}))
	if diff != "" {
		t.Error(diff)
	}
	for _, s := range cfg.Settings(origins) {
		if s.Origin != "default" {
			t.Errorf("%s is from %s", s.Key, s.Origin)
		}
	}
}

func TestYAMLAndTOMLLoadAlike(t *testing.T) {
	dir, err := filepath.Abs("testdata/examples")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", "/home/someone")
	in := func(path string) string { return filepath.Join(dir, path) }
	load := func(file string) *config.Config {
		o := alone(t.TempDir(), "API_TOKEN=s3cret")
		o.File = in(file)
		cfg, _ := mustLoad(t, o)
		return cfg
	}
	fromYAML, fromTOML := load("full.yaml"), load("full.toml")

	weather := fromYAML.Extensions.Entries["weather"].Config
	if got := weather["big"]; got != json.Number("12345678901234567890") {
		t.Errorf("a big whole number became %v (%[1]T)", got)
	}
	delete(weather, "big") // TOML has neither this value nor null
	nested := weather["nested"].(map[string]any)
	if diff := cmp.Diff([]any{int64(1), 2.5, true, nil}, nested["a"]); diff != "" {
		t.Error(diff)
	}
	nested["a"] = nested["a"].([]any)[:3]
	diff := cmp.Diff(fromYAML, fromTOML, cmpopts.IgnoreFields(config.Config{}, "Files", "Project", "Origins"),
		cmpopts.IgnoreUnexported(config.Config{}))
	if diff != "" {
		t.Errorf("YAML and TOML differ (-yaml +toml):\n%s", diff)
	}

	cfg := fromYAML
	if diff := cmp.Diff([]string{in("extensions"), "/home/someone/exthost/extensions", "/opt/extensions"},
		cfg.Extensions.SearchPaths); diff != "" {
		t.Error(diff)
	}
	if got := cfg.Extensions.Entries["weather"].Env["WEATHER_REGION"]; got != "eu" {
		t.Errorf("the default of a variable is %q", got)
	}
	plugins := []governance.Spec{{
		Name: "log", Category: governance.Observability, Kind: governance.KindGRPC, Mode: governance.ModeEnforce,
		Required: new(false),
		Flows:    []governance.Flow{governance.Request, governance.Response},
		Match:    governance.Match{Tools: []string{"ext_weather_*"}, Direction: []string{"to_extension"}},
		Timeout:  500 * time.Millisecond, HandshakeTimeout: 30 * time.Second,
		Cmd: []string{in("policies/log"), "--verbose"}, Cwd: dir, CommitHash: "abc123",
		Config: map[string]any{"sampleRate": 0.5},
	}, {
		Name: "redact", Category: governance.Content, Kind: governance.KindMCP, Required: new(true),
		Mode: governance.ModeEnforce, Priority: 10,
		Timeout: 3 * time.Second, HandshakeTimeout: 30 * time.Second,
		MCP: &governance.MCP{
			Proto:  governance.ProtoStdio,
			Script: in("policies/redact.py"),
			Cwd:    in("policies"),
			Env:    map[string]string{"MODE": "strict"},
		},
	}}
	if diff := cmp.Diff(plugins, cfg.Plugins); diff != "" {
		t.Error(diff)
	}
	hook := cfg.Hooks[0]
	if want := (manifest.Command{in("hooks/check"), "${CLAUDE_PROJECT_DIR}", "--strict"}); !slices.Equal(hook.Command,
		want) || hook.Event != "before_tool_call" {
		t.Errorf("hook = %+v", hook)
	}
	destinations := config.Destinations{
		"files": {Type: "stdio",
			Command: manifest.Command{"npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/data set"},
			Cwd:     dir, Instances: manifest.InstancesPerSession, Port: 7811,
			StartTimeout: config.DefaultStartTimeout},
		"remote": {
			Type:         "sse",
			URL:          "https://example.com/sse",
			Headers:      map[string]string{"Authorization": "Bearer s3cret"},
			StartTimeout: config.DefaultStartTimeout,
		},
	}
	if diff := cmp.Diff(destinations, cfg.Destinations); diff != "" {
		t.Error(diff)
	}
	if cfg.Server.TLS.Cert != in("tls/cert.pem") || cfg.Server.MaxBody != 4<<20 ||
		cfg.Audit.Path != in("audit/log.jsonl") {
		t.Errorf("server = %+v, audit = %+v", cfg.Server, cfg.Audit)
	}
}

// log.level is stated in every layer. Each time the strongest layer is removed, the next one applies.
func TestStrongerLayersWin(t *testing.T) {
	level := func(s string) string { return "log: {level: " + s + "}" }
	system := write(t, map[string]string{"exthost.yaml": level("error") + "\naudit: {keep: 1}"})
	user := write(t, map[string]string{"exthost.toml": "[log]\nlevel = \"warn\""})
	project := write(t, map[string]string{"config/log.yaml": level("info"), "other.yaml": level("debug")})
	other := filepath.Join(project, "other.yaml")
	levels := []struct {
		value, origin string
		state         func(*config.LoadOptions)
	}{
		{"error", filepath.Join(system, "exthost.yaml") + ":1", func(o *config.LoadOptions) { o.SystemDir = system }},
		{"warn", filepath.Join(user, "exthost.toml") + ":2", func(o *config.LoadOptions) { o.UserDir = user }},
		{"info", filepath.Join(project, "config", "log.yaml") + ":1", func(o *config.LoadOptions) { o.Dir = project }},
		{"debug", other + ":1", func(o *config.LoadOptions) { o.File = other }},
		{"trace", "env EXTHOST_LOG_LEVEL",
			func(o *config.LoadOptions) { o.Environ = []string{"EXTHOST_LOG_LEVEL=trace"} }},
		{"error", "flag --log-level", func(o *config.LoadOptions) {
			o.Flags = []config.Flag{{Name: "--log-level", Key: "log.level", Values: []string{"error"}}}
		}},
	}
	for top := range levels {
		for only := range top + 1 {
			o := alone(t.TempDir())
			for i, l := range levels[:top+1] {
				if i >= only {
					l.state(&o)
				}
			}
			cfg, origins := mustLoad(t, o)
			if want := levels[top]; cfg.Log.Level != want.value || origins.Of("log.level") != want.origin {
				t.Errorf("levels %d to %d: %s from %s, want %s from %s", only, top, cfg.Log.Level,
					origins.Of("log.level"), want.value, want.origin)
			}
			if keep := map[bool]int{true: 1, false: 5}[only == 0]; cfg.Audit.Keep != keep {
				t.Errorf("levels %d to %d: audit.keep is %d, want %d: what only the weakest states holds", only, top,
					cfg.Audit.Keep, keep)
			}
		}
	}
}

// Policies and hooks of the system's and the user's files stay unchanged, whatever a project's file states.
func TestLaterLayersKeepPolicies(t *testing.T) {
	file := func(name string) string {
		return "plugins:\n  - {name: " + name +
			", category: audit, cmd: [x]}\nhooks:\n  - {event: session_start, command: /bin/" + name + "}\n"
	}
	o := alone(write(t, map[string]string{"exthost.yaml": file("project"), "other.yaml": file("other")}))
	o.SystemDir = write(t, map[string]string{"exthost.yaml": file("system")})
	o.UserDir = write(t, map[string]string{"exthost.yaml": file("user")})
	names := func(o config.LoadOptions) (got string) {
		cfg, _ := mustLoad(t, o)
		for i, p := range cfg.Plugins {
			got += " " + p.Name
			if want := "/bin/" + p.Name; cfg.Hooks[i].Command[0] != want {
				t.Errorf("hook %d is %v, want %s", i, cfg.Hooks[i].Command, want)
			}
		}
		return strings.TrimSpace(got)
	}
	if got, want := names(o), "system user project"; got != want {
		t.Errorf("policies are %q, want %q", got, want)
	}
	o.File = filepath.Join(o.Dir, "other.yaml") // replaces only the project's list
	if got, want := names(o), "system user other"; got != want {
		t.Errorf("policies are %q, want %q", got, want)
	}
	o.Dir, o.File = write(t, map[string]string{"exthost.yaml": "plugins: []\nhooks: []\n"}), ""
	if got, want := names(o), "system user"; got != want {
		t.Errorf("policies are %q, want %q", got, want)
	}
	o.Dir = write(t, map[string]string{
		"exthost.yaml": "plugins:\n  - {name: system, category: audit, disabled: true}\n",
	})
	if cfg, _, diags := loaded(o); cfg != nil ||
		!strings.Contains(text(diags, ""), "policies are never replaced") {
		t.Errorf("a project replaced a policy of the system:\n%s", text(diags, ""))
	}
}

func TestVariablesAndFlags(t *testing.T) {
	dir := t.TempDir()
	o := alone(dir, "EXTHOST_EXTENSIONS_SEARCH_PATHS=a"+string(os.PathListSeparator)+"b",
		"EXTHOST_EXTENSIONS_DISABLED=x, y",
		"EXTHOST_SERVER_METRICS=false", "EXTHOST_SERVER_MAX_BODY=1MiB", "EXTHOST_EXTENSIONS_WATCH_DEBOUNCE_MS=20",
		"EXTHOST_EXTENSIONS_DEFAULTS_CALL_TIMEOUT=7s", "EXTHOST_EXTENSIONS_DEFAULTS_MAX_QUEUE=3", "EXTHOST_LOG_FILE=",
		"EXTHOST_SERVER_LISTENS=:1", "EXTHOST_STATE_DIR=/x", "EXTHOST_SERVER_AUTH_TOKEN=${not a variable}")
	cfg, _, diags := loaded(o)
	if cfg == nil {
		t.Fatal(text(diags, ""))
	}
	if got, want := text(diags,
		""), "warn env EXTHOST_SERVER_LISTENS: sets nothing; did you mean \"EXTHOST_SERVER_LISTEN\"?\n"; got != want {
		t.Errorf("diagnostics:\n%swant:\n%s", got, want)
	}
	want := config.Default()
	want.Extensions.SearchPaths = []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	want.Extensions.Disabled = []string{"x", "y"}
	want.Server.Metrics, want.Server.MaxBody, want.Server.Auth.Token = false, 1<<20, "${not a variable}"
	want.Extensions.Watch.Debounce = manifest.Duration(20 * time.Millisecond)
	call, queue := manifest.Duration(7*time.Second), 3
	want.Extensions.Defaults.CallTimeout, want.Extensions.Defaults.MaxQueue = &call, &queue
	diff := cmp.Diff(want, cfg, cmpopts.IgnoreFields(config.Config{}, "Files", "Project", "Origins", "Warnings"),
		cmpopts.IgnoreUnexported(config.Config{}))
	if diff != "" {
		t.Error(diff)
	}
	o.Flags = []config.Flag{{Name: "--extensions", Key: "extensions.search_paths", Values: []string{"one,two"}}}
	cfg, origins := mustLoad(t, o)
	if want := []string{filepath.Join(dir, "one,two")}; !slices.Equal(cfg.Extensions.SearchPaths, want) {
		t.Errorf("search paths = %v, want %v", cfg.Extensions.SearchPaths, want)
	}
	if got := origins.Of("extensions.search_paths"); got != "flag --extensions" {
		t.Errorf("origin = %s", got)
	}
}

func TestMapsJoinAndListsReplace(t *testing.T) {
	o := alone(write(t, map[string]string{"exthost.yaml": `
extensions:
  disabled: [c]
  entries:
    a: {config: {two: 2, deep: {y: 2}}, hooks: none}
    b:
`}))
	o.SystemDir = write(t, map[string]string{"exthost.yaml": `
destinations:
  d: {command: serve, env: {ONE: "1"}}
`})
	o.UserDir = write(t, map[string]string{"exthost.yaml": `
extensions:
  disabled: [a, b]
  entries:
    a: {config: {one: 1, deep: {x: 1}}, runtime: {call_timeout: 1s}}
destinations:
  d: {env: {TWO: "2"}}
`})
	cfg, origins := mustLoad(t, o)
	second := manifest.Duration(time.Second)
	entries := map[string]config.Entry{
		"a": {Hooks: config.HooksNone, Runtime: manifest.Runtime{CallTimeout: &second},
			Config: map[string]any{
				"one":  int64(1),
				"two":  int64(2),
				"deep": map[string]any{"x": int64(1), "y": int64(2)},
			}},
		"b": {Hooks: config.HooksOwn},
	}
	if diff := cmp.Diff(entries, cfg.Extensions.Entries); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(cfg.Extensions.Disabled, []string{"c"}) {
		t.Errorf("disabled = %v", cfg.Extensions.Disabled)
	}
	if diff := cmp.Diff(map[string]string{"ONE": "1", "TWO": "2"}, cfg.Destinations["d"].Env); diff != "" {
		t.Error(diff)
	}
	for key, file := range map[string]string{
		"extensions.entries.a.config.deep.x": o.UserDir,
		"extensions.entries.a.config.deep.y": o.Dir,
	} {
		if got := origins.Of(key); !strings.HasPrefix(got, file) {
			t.Errorf("%s is from %s, want %s", key, got, file)
		}
	}
}

// Config.Files lists every file whose change would change the configuration.
func TestConfigListsItsFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("more.yaml", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, diags := loaded(config.LoadOptions{
		File:      "more.yaml",
		Environ:   []string{},
		UserDir:   dir + "/user",
		SystemDir: "none",
	})
	if cfg == nil {
		t.Fatal(diags)
	}
	for _, name := range []string{
		"more.yaml",
		"exthost.yaml",
		"exthost.toml",
		"config/plugins.yml",
		"user/exthost.yaml",
	} {
		if !slices.Contains(cfg.Files, filepath.Join(dir, name)) {
			t.Errorf("%s is not among %q", name, cfg.Files)
		}
	}
}

// The files of other programs in their own places are named, once there is no configuration of this host beside them.
func TestFilesOfOtherProgramsAreNamed(t *testing.T) {
	files := map[string]string{
		"plugins/config.yaml": "plugins:\n- name: PIIFilter\n  kind: external\nplugin_dirs: []\n",
		"catalog.yaml":        "servers:\n- name: weather\n  cmd: [npx, weather]\n",
	}
	dir := write(t, files)
	_, _, diags := loaded(alone(dir))
	want := "warn plugins/config.yaml: not read: it configures another program; exthost import " +
		"plugins/config.yaml shows what it becomes here\nwarn catalog.yaml: not read: it configures another program; " +
		"exthost import catalog.yaml shows what it becomes here\n"
	if got := filepath.ToSlash(text(diags, dir)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	files["exthost.yaml"] = "log: {level: info}\n"
	unrelated := write(t, map[string]string{"catalog.yaml": "servers: 3\n", "plugins/config.yaml": "[\n"})
	for _, dir := range []string{write(t, files), unrelated} {
		if _, _, diags := loaded(alone(dir)); len(diags) > 0 {
			t.Errorf("%s", text(diags, dir))
		}
	}
}

// The command of a destination, a policy or a hook may begin with the home directory of the user.
func TestCommandsBelowHome(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	o := alone(write(t, map[string]string{"exthost.yaml": `
destinations:
  d: {command: [~/bin/d, ~/x]}
hooks:
  - {event: before_tool_call, command: ["~/bin/h"]}
plugins:
  - {name: p, category: observability, cmd: ["~/bin/p"], flows: [request]}
`}))
	cfg, _ := mustLoad(t, o)
	want := [][]string{
		{filepath.Join(home, "bin/d"), "~/x"},
		{filepath.Join(home, "bin/h")},
		{filepath.Join(home, "bin/p")},
	}
	got := [][]string{cfg.Destinations["d"].Command, cfg.Hooks[0].Command, cfg.Plugins[0].Cmd}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
