package config_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
)

func ExampleLoad() {
	cfg, origins, diags := loaded(config.LoadOptions{
		File:      "testdata/examples/small.yaml",
		Environ:   []string{"EXTHOST_LOG_LEVEL=debug"},
		UserDir:   "none",
		SystemDir: "none",
	})
	for _, d := range diags {
		fmt.Println(d)
	}
	fmt.Println(cfg.Server.Listen, "from", origins.Of("server.listen"))
	fmt.Println(cfg.Log.Level, "from", origins.Of("log.level"))
	fmt.Println(cfg.Log.Format, "from", origins.Of("log.format"))
	// Output:
	// 127.0.0.1:7900 from testdata/examples/small.yaml:5
	// debug from env EXTHOST_LOG_LEVEL
	// auto from default
}

const secrets = `
server: {auth: {token: canary-1}, tls: {cert: /c.pem, key: /k.pem}}
extensions:
  entries: {weather: {env: {API_TOKEN: canary-2, REGION: eu}, config: {password: canary-3, list: [sk-canary4canary4]}}}
destinations:
  a: {url: "https://example.com", headers: {X-Any: canary-5}}
  b: {command: [serve, "postgres://me:canary-6@db/x", --verbose], env_from_headers: {X-Api-Key: API_KEY}}
plugins:
  - {name: p, category: audit, cmd: [x], env: {GITHUB_PAT: canary-7}, timeout: 2s}
`

// Settings come in order, with origins and without secrets.
func TestSettingsHaveOrigins(t *testing.T) {
	dir := write(t, map[string]string{"exthost.yaml": secrets})
	o := alone(dir, "EXTHOST_AUDIT_KEEP=9")
	o.Flags = []config.Flag{{Name: "--listen", Key: "server.listen", Values: []string{":0"}}}
	cfg, origins := mustLoad(t, o)
	var b strings.Builder
	for _, s := range cfg.Settings(origins) {
		value, err := json.Marshal(s.Value)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s = %s (%s)\n", s.Key, value, s.Origin)
	}
	got := strings.ReplaceAll(b.String(), dir+string(filepath.Separator), "")
	want := `extensions.enabled = true (default)
extensions.search_paths = ["extensions"] (default)
extensions.ignore_dirs = ["node_modules",".git","target"] (default)
extensions.disabled = [] (default)
extensions.allowlist = [] (default)
extensions.max_depth = 4 (default)
extensions.follow_links = false (default)
extensions.watch.enabled = false (default)
extensions.watch.mode = "log" (default)
extensions.watch.debounce_ms = 500 (default)
extensions.sandbox.default = "off" (default)
extensions.env.mode = "filter" (default)
extensions.env.pass = [] (default)
extensions.safe_directories = [] (default)
extensions.trust = "ask" (default)
extensions.min_release_age = "72h0m0s" (default)
extensions.entries.weather.config.list = ["***"] (exthost.yaml:4)
extensions.entries.weather.config.password = "***" (exthost.yaml:4)
extensions.entries.weather.env.API_TOKEN = "***" (exthost.yaml:4)
extensions.entries.weather.env.REGION = "eu" (exthost.yaml:4)
extensions.entries.weather.hooks = "own" (default)
plugins[0].name = "p" (exthost.yaml:9)
plugins[0].category = "audit" (exthost.yaml:9)
plugins[0].kind = "grpc" (default)
plugins[0].required = true (default)
plugins[0].mode = "enforce" (default)
plugins[0].timeout_ms = 2000 (exthost.yaml:9)
plugins[0].handshake_timeout_ms = 30000 (default)
plugins[0].cmd = ["x"] (exthost.yaml:9)
plugins[0].env.GITHUB_PAT = "***" (exthost.yaml:9)
plugins[0].cwd = "DIR" (default)
destinations.a.type = "sse" (default)
destinations.a.url = "https://example.com" (exthost.yaml:6)
destinations.a.headers.X-Any = "***" (exthost.yaml:6)
destinations.a.start_timeout = "2m0s" (default)
destinations.b.type = "stdio" (default)
destinations.b.command = ["serve","***","--verbose"] (exthost.yaml:7)
destinations.b.env_from_headers.X-Api-Key = "API_KEY" (exthost.yaml:7)
destinations.b.cwd = "DIR" (default)
destinations.b.instances = "per_session" (default)
destinations.b.start_timeout = "2m0s" (default)
tools.mode = "all" (default)
tools.call = "split" (default)
tools.search_above = 10000 (default)
server.listen = ":0" (flag --listen)
server.auth.token = "***" (exthost.yaml:2)
server.allowed_origins = [] (default)
server.allowed_hosts = [] (default)
server.tls.cert = "/c.pem" (exthost.yaml:2)
server.tls.key = "/k.pem" (exthost.yaml:2)
server.metrics = true (default)
server.max_body = 16777216 (default)
server.list_wait = "25s" (default)
server.idle_exit = "10m0s" (default)
secrets.provider = "age" (default)
secrets.timeout = "30s" (default)
audit.path = "" (default)
audit.max_size = 67108864 (default)
audit.keep = 9 (env EXTHOST_AUDIT_KEEP)
audit.anchor = "1m0s" (default)
cluster.share[0].extensions = ["*"] (default)
cluster.share[0].as = "mine" (default)
cluster.use[0].nodes = ["*"] (default)
cluster.use[0].extensions = ["*"] (default)
cluster.operators = [] (default)
cluster.max_calls = 1024 (default)
cluster.max_tools = 2000 (default)
cluster.pulse = "250ms" (default)
cluster.grace = "2s" (default)
cluster.silence = "10s" (default)
cluster.forget = "30s" (default)
log.level = "info" (default)
log.format = "auto" (default)
log.file = "" (default)
log.max_size = 67108864 (default)
log.keep = 5 (default)
`
	if diff := cmp.Diff(strings.ReplaceAll(want, "DIR", dir), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Redacted output loads again and yields the same configuration, except for secrets.
func TestRedactedConfigLoadsAgain(t *testing.T) {
	o := alone(write(t, map[string]string{"exthost.yaml": secrets}))
	cfg, _ := mustLoad(t, o)
	shown, err := json.MarshalIndent(cfg.Redacted(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(shown), "canary") {
		t.Errorf("a secret is shown:\n%s", shown)
	}
	again, _ := mustLoad(t, alone(write(t, map[string]string{"exthost.yaml": string(shown)})))
	if diff := cmp.Diff(cfg.Redacted(), again.Redacted()); diff != "" {
		t.Errorf("(-shown +loaded again):\n%s", diff)
	}
}

// Entries in the notation of two other systems load.
func TestPluginsOfOtherSystemsLoad(t *testing.T) {
	cfg, _ := mustLoad(t, alone(write(t, map[string]string{"config/plugins.yaml": `
plugins:
  - name: audit-log
    category: audit
    required: false
    cmd: [python3, plugin.py]
    env: {LEVEL: info}
    cwd: /opt/plugins
    commitHash: 0f1e2d
    timeoutMs: 0
    handshakeTimeoutMs: 10000
    flows: [request, response]
    config: {path: /var/log/audit.jsonl}
  - name: PIIFilter
    kind: external
    description: masks personal data
    author: someone
    version: 0.1.0
    hooks: [tool_pre_invoke, tool_post_invoke]
    tags: [security]
    mode: enforce_ignore_error
    on_error: ignore
    priority: 50
    conditions:
      - {prompts: [], server_ids: [], tenant_ids: []}
    mcp:
      proto: STREAMABLEHTTP
      url: http://127.0.0.1:3000/mcp
  - name: Watcher
    kind: external
    mode: permissive
    conditions:
      - {tools: [ext_a_b], server_ids: [a]}
    mcp: {proto: STDIO, cmd: [./serve, --fast], cwd: /opt/w}
`})))
	want := []governance.Spec{{
		Name: "audit-log", Category: governance.Audit, Kind: governance.KindGRPC, Mode: governance.ModeEnforce,
		Cmd: []string{"python3", "plugin.py"}, Env: map[string]string{"LEVEL": "info"}, Cwd: "/opt/plugins",
		CommitHash: "0f1e2d", Required: new(false),
		Timeout: 3e9, HandshakeTimeout: 10e9, Flows: []governance.Flow{governance.Request, governance.Response},
		Config: map[string]any{"path": "/var/log/audit.jsonl"},
	}, {
		Name: "PIIFilter", Category: governance.Content, Kind: governance.KindMCP, Mode: governance.ModeEnforce,
		Priority: 50, Required: new(false),
		Timeout: 3e9, HandshakeTimeout: 30e9, Hooks: []string{"tool_pre_invoke", "tool_post_invoke"},
		MCP:         &governance.MCP{Proto: governance.ProtoStreamableHTTP, URL: "http://127.0.0.1:3000/mcp"},
		Description: "masks personal data", Author: "someone", Version: "0.1.0", Tags: []string{"security"},
	}, {
		Name: "Watcher", Category: governance.Content, Kind: governance.KindMCP, Mode: governance.ModeShadow,
		Required: new(true),
		Timeout:  3e9, HandshakeTimeout: 30e9,
		Match: governance.Match{Tools: []string{"ext_a_b"}, Extensions: []string{"a"}},
		MCP:   &governance.MCP{Proto: governance.ProtoStdio, Cmd: []string{"/opt/w/serve", "--fast"}, Cwd: "/opt/w"},
	}}
	if diff := cmp.Diff(want, cfg.Plugins); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Unset variables are an error, except in a destination whose secrets may define them. In a command, a variable stays
// one word.
func TestUnsetVariablesAreErrors(t *testing.T) {
	load := func(yaml string) (*config.Config, string) {
		dir := write(t, map[string]string{"exthost.yaml": yaml})
		cfg, _, diags := loaded(alone(dir, "WORDS=a b; c", "EMPTY="))
		return cfg, text(diags, dir)
	}
	cfg, said := load(`
destinations:
  d:
    command: serve ${WORDS} "${LATER}" ${EMPTY:-x}y '$${WORDS}'
    env: {A: "${EMPTY}", B: "$WORDS"}
    secrets_file: secrets.env
`)
	if cfg == nil {
		t.Fatal(said)
	}
	d := cfg.Destinations["d"]
	if diff := cmp.Diff([]string{"serve", "a b; c", "${LATER}", "xy", "${WORDS}"}, []string(d.Command)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"A": "", "B": "$WORDS"}, d.Env); diff != "" {
		t.Error(diff)
	}
	_, said = load(`server: {listen: "${LATER}"}`)
	want := "error exthost.yaml:1:18: server.listen: the variable LATER is not set; set it, or write " +
		"${LATER:-default}\n"
	if !strings.HasPrefix(said, want) {
		t.Errorf("got %swant %s", said, want)
	}
}

// An unset variable that only one extension or destination needs does not invalidate the configuration, and is
// reported unless a stronger layer replaces the value.
func TestUnsetVariablesOfOneExtension(t *testing.T) {
	user := write(t, map[string]string{"exthost.yaml": "extensions: {entries: {replaced: {env: {A: '${NOT_USED}'}}}}"})
	dir := write(t, map[string]string{"exthost.yaml": `
extensions:
  entries:
    a: {env: {TOKEN: "${TOKEN_A}", OTHER: x}, config: {deep: [{key: "${KEY_A}"}]}}
    "a.s": {env: {S: y}}
    b: {env_file: nothing.env}
    replaced: {env: {A: fine}}
destinations:
  d: {url: "https://x/${WHERE}"}
  e: {command: [serve], env: {PORT: 12, LATE: "${FROM_FILE}"}, secrets_file: s.yaml}
`, "s.yaml": "FROM_FILE: x"})
	o := alone(dir)
	o.UserDir = user
	cfg, _ := mustLoad(t, o)
	in := func(path string) string { return filepath.Join(dir, path) }
	e := cfg.Extensions
	want := map[string][]string{
		"a": {in("exthost.yaml") +
			`:4: extensions.entries.a.env.TOKEN: the variable TOKEN_A is not set; set it, or write ${TOKEN_A:-default}`,
			in("exthost.yaml") +
				`:4: extensions.entries.a.config.deep[0].key: the variable KEY_A is not set; set it, or write ${KEY_A:-default}`},
		"b": {in("exthost.yaml") + ":6: extensions.entries.b.env_file: " + in("nothing.env") + " does not exist"},
	}
	want["a.s"] = want["a"] // servers of an extension share its variables
	for _, id := range []string{"a", "a.s", "b", "replaced", "c"} {
		if diff := cmp.Diff(want[id], e.Problems(id)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	if got := e.Environ("a.s"); got["OTHER"] != "x" || got["S"] != "y" {
		t.Errorf("variables of a server %v", got)
	}
	if d := cfg.Destinations["d"]; len(d.Unset) != 1 ||
		!strings.Contains(d.Unset[0], "exthost.yaml:9: destinations.d.url: the variable WHERE is not set") {
		t.Errorf("destination %q", d.Unset)
	}
	if d := cfg.Destinations["e"]; d.Env["PORT"] != "12" {
		t.Errorf("variables %v", d.Env)
	}
}

func TestEnvFileOfAnExtension(t *testing.T) {
	dir := write(t, map[string]string{
		"config/extensions.yaml": "extensions: {entries: {hub: {env_file: hub.env, env: {B: stated}}, lab: " +
			"{env_file: all.yaml}}}",
		"hub.env":  "A=1\nB=2\n",
		"all.yaml": "hub: {A: 3}\nlab: {A: 4}\n",
	})
	cfg, _ := mustLoad(t, alone(dir))
	if diff := cmp.Diff(map[string]string{"A": "1", "B": "stated"}, cfg.Extensions.Environ("hub")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"A": "4"}, cfg.Extensions.Environ("lab")); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(cfg.Files, filepath.Join(dir, "hub.env")) {
		t.Errorf("%v lacks the env_file, and its changes would not be seen", cfg.Files)
	}
}
