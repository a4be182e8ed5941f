package test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// surroundings are what a server of a plugin was started with.
type surroundings struct {
	Args []string
	Env  map[string]string
	Cwd  string
}

// servePlugged is a server of a plugin: look returns its surroundings, keep writes into its data directory.
func servePlugged(string) {
	s := mcp.NewServer(&mcp.Implementation{Name: "plugged", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "look", Description: "Returns how it was started."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, surroundings, error) {
			found := surroundings{Args: os.Args[1:], Env: map[string]string{}}
			for _, kv := range os.Environ() {
				name, value, _ := strings.Cut(kv, "=")
				found.Env[name] = value
			}
			var err error
			found.Cwd, err = os.Getwd()
			return nil, found, err
		})
	mcp.AddTool(s, &mcp.Tool{Name: "keep", Description: "Writes a file."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, os.WriteFile(filepath.Join(os.Getenv(agentplugin.DataVariable), "kept"), nil, 0o600)
		})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		processtest.Exit(1)
	}
}

// pluginFolder is a search path with one plugin.
type pluginFolder struct {
	*hosttest.Folder
	name    string
	servers map[string]any
}

func newPlugin(t testing.TB, name string, fields map[string]any) *pluginFolder {
	t.Helper()
	f := &pluginFolder{Folder: hosttest.NewFolder(t), name: name, servers: map[string]any{}}
	m := map[string]any{"$schema": agentplugin.PluginSchema, "name": name}
	maps.Copy(m, fields)
	f.writeJSON("plugin.json", m)
	f.Write(name+"/bin/server", "#!/bin/sh\nexec \"$EXE\" \"$@\"\n")
	return f
}

func (f *pluginFolder) writeJSON(name string, value any) {
	f.T.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		f.T.Fatal(err)
	}
	f.Write(f.name+"/"+name, string(text))
}

// stdio adds a server that is [servePlugged].
func (f *pluginFolder) stdio(name string, env map[string]string, more map[string]any) {
	all := map[string]string{"EXE": hosttest.Exe(f.T), processtest.ScriptVar: "plugged"}
	maps.Copy(all, env)
	s := map[string]any{"type": "stdio", "command": "./bin/server", "env": all}
	maps.Copy(s, more)
	f.add(name, s)
}

// add adds a server and writes mcp.json.
func (f *pluginFolder) add(name string, s map[string]any) {
	f.servers[name] = s
	f.writeJSON("mcp.json", map[string]any{"$schema": agentplugin.ServersSchema, "mcpServers": f.servers})
}

func look(t *testing.T, h *exthost.Host, tool string) (s surroundings) {
	t.Helper()
	result, err := h.Call(hosttest.Deadline(t), tool, map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	var r struct{ StructuredContent surroundings }
	if err := json.Unmarshal(result, &r); err != nil {
		t.Fatalf("%s: %v", result, err)
	}
	return r.StructuredContent
}

// TestPluginProcesses starts the servers of a plugin, and compares what they are given with the specification.
func TestPluginProcesses(t *testing.T) {
	processtest.Leaks(t)
	t.Setenv("FROM_HOST", "host")
	t.Setenv("LEAKED_TOKEN", "canary")
	t.Setenv(agentplugin.RootVariable, "/of/the/host")
	f := newPlugin(t, "acme.tools", nil)
	f.stdio("plain", nil, nil)
	f.stdio("db", map[string]string{
		"FROM_HOST": "plugin",
		"BOTH":      "${PLUGIN_ROOT};${PLUGIN_DATA}",
		"LITERAL":   "${HOME} secret://x $${PLUGIN_ROOT}",
	}, map[string]any{
		"args": []string{"${PLUGIN_DATA}/db", "${OTHER}", "secret://x"},
		"cwd":  "${PLUGIN_DATA}/inner/deep",
	})
	f.add("absent", map[string]any{"type": "stdio", "command": "./bin/absent"})
	f.Entries["acme.tools.db"] = config.Entry{
		Hooks: config.HooksOwn,
		Env:   map[string]string{"OPERATOR": "1", agentplugin.DataVariable: "/of/the/operator"},
	}
	f.Entries["acme"] = config.Entry{Hooks: config.HooksOwn, Env: map[string]string{"OTHERS": "1"}}
	// placeholders in the path of the package are text as any other
	odd := filepath.Join(f.Dir, "a${PLUGIN_DATA}b")
	if err := os.Rename(filepath.Join(f.Dir, f.name), odd); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	h := f.Open(exthost.Options{StateDir: state})
	root, err := filepath.EvalSymlinks(odd)
	if err != nil {
		t.Fatal(err)
	}
	data, err := filepath.EvalSymlinks(filepath.Join(state, ".plugins", "acme.tools"))
	if err != nil {
		t.Fatal(err)
	}
	plain, db := look(t, h, "ext_acme_tools_plain_look"), look(t, h, "ext_acme_tools_db_look")
	equal := func(t *testing.T, what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s is %q, want %q", what, got, want)
		}
	}
	t.Run("7.2.1 default cwd", func(t *testing.T) { equal(t, "cwd", plain.Cwd, root) })
	t.Run("7.2.1 cwd below PLUGIN_DATA", func(t *testing.T) {
		equal(t, "cwd", db.Cwd, filepath.Join(data, "inner", "deep"))
	})
	t.Run("7.2.2 a server that does not start", func(t *testing.T) {
		if x := hosttest.StatusOf(t, h, "acme.tools.absent"); x.Reason == "" {
			t.Errorf("%+v", x)
		}
	})
	t.Run("9.1 PLUGIN_ROOT and PLUGIN_DATA", func(t *testing.T) {
		for _, s := range []surroundings{plain, db} {
			equal(t, "PLUGIN_ROOT", s.Env[agentplugin.RootVariable], root)
			equal(t, "PLUGIN_DATA", s.Env[agentplugin.DataVariable], data)
		}
	})
	t.Run("9.1 env overlays the base", func(t *testing.T) {
		equal(t, "FROM_HOST", db.Env["FROM_HOST"], "plugin")
		equal(t, "FROM_HOST", plain.Env["FROM_HOST"], "host")
		equal(t, "LEAKED_TOKEN", plain.Env["LEAKED_TOKEN"], "")
		equal(t, "OPERATOR", db.Env["OPERATOR"], "1")
		equal(t, "OTHERS", db.Env["OTHERS"], "")
	})
	t.Run("9.1 PLUGIN_DATA is writable and shared", func(t *testing.T) {
		if _, err := h.Call(hosttest.Deadline(t), "ext_acme_tools_db_keep", map[string]any{}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(data, "kept")); err != nil {
			t.Error(err)
		}
	})
	t.Run("9.2 replaced once", func(t *testing.T) {
		equal(t, "args", strings.Join(db.Args, " "), data+"/db ${OTHER} secret://x")
		equal(t, "BOTH", db.Env["BOTH"], root+";"+data)
	})
	t.Run("9.2 nothing else is replaced", func(t *testing.T) {
		equal(t, "LITERAL", db.Env["LITERAL"], "${HOME} secret://x $"+root)
	})
}

// TestPluginIsUpgraded replaces a package: its data stay (9.1), and only the changed server starts anew.
func TestPluginIsUpgraded(t *testing.T) {
	processtest.Leaks(t)
	f := newPlugin(t, "reports", map[string]any{"version": "1"})
	f.stdio("reports", nil, nil)
	state := t.TempDir()
	h := f.Open(exthost.Options{StateDir: state})
	if _, err := h.Call(hosttest.Deadline(t), "ext_reports_keep", map[string]any{}); err != nil {
		t.Fatal(err)
	}
	f.stdio("reports", map[string]string{"EDITION": "2"}, nil)
	change, err := h.Admin().Reload(hosttest.Deadline(t))
	if err != nil || !slices.Equal(change.Changed, []string{"reports"}) {
		t.Fatalf("%+v, %v", change, err)
	}
	if s := look(t, h, "ext_reports_look"); s.Env["EDITION"] != "2" {
		t.Errorf("environment %v", s.Env)
	}
	if _, err := os.Stat(filepath.Join(state, ".plugins", "reports", "kept")); err != nil {
		t.Error(err)
	}
}

// TestPluginHeaders connects servers of a plugin over HTTP: 7.2.1 has headers sent as they are, to the configured
// origin alone, and by the stated transport first.
func TestPluginHeaders(t *testing.T) {
	processtest.Leaks(t)
	type seen struct {
		method string
		header http.Header
	}
	var mu sync.Mutex
	var first *seen
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return hosttest.OfficialServer() }, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if first == nil {
			first = &seen{r.Method, r.Header.Clone()}
		}
		mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	var strayed []string
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		strayed = append(strayed, fmt.Sprint(r.Method, r.Header))
	}))
	t.Cleanup(thief.Close)
	redirecting := httptest.NewServer(http.RedirectHandler(thief.URL+"/mcp", http.StatusTemporaryRedirect))
	t.Cleanup(redirecting.Close)
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", thief.URL)
	}))
	t.Cleanup(away.Close)

	f := newPlugin(t, "reports", nil)
	headers := map[string]string{"X-Tenant": "${HOME} secret://x", "User-Agent": "plugin", "Mcp-Session-Id": "stolen"}
	f.add("api", map[string]any{"type": "streamable-http", "url": server.URL + "/mcp", "headers": headers})
	f.add("moved", map[string]any{"type": "streamable-http", "url": redirecting.URL + "/mcp", "headers": headers})
	f.add("events", map[string]any{"type": "sse", "url": away.URL + "/sse", "headers": headers})
	h := f.Open(exthost.Options{})
	if _, err := h.Call(hosttest.Deadline(t), "ext_reports_api_upper", map[string]any{"text": "a"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"reports.moved", "reports.events"} {
		hosttest.Eventually(t, id+" fails", func() bool { return hosttest.StatusOf(t, h, id).Reason != "" })
	}
	mu.Lock()
	defer mu.Unlock()
	t.Run("7.2.1 stated transport first", func(t *testing.T) {
		if first.method != http.MethodPost {
			t.Errorf("the first request is %s", first.method)
		}
	})
	t.Run("7.2.1 literal headers", func(t *testing.T) {
		if got := first.header.Get("X-Tenant"); got != "${HOME} secret://x" {
			t.Errorf("X-Tenant is %q", got)
		}
	})
	t.Run("7.2.1 headers of the client win", func(t *testing.T) {
		if got := first.header.Get("User-Agent"); !strings.HasPrefix(got, "exthost/") {
			t.Errorf("User-Agent is %q", got)
		}
		if got := first.header.Get("Mcp-Session-Id"); got != "" {
			t.Errorf("the first request has the session %q", got)
		}
	})
	t.Run("7.2.1 no other origin", func(t *testing.T) {
		if len(strayed) > 0 {
			t.Errorf("requests to another origin: %v", strayed)
		}
	})
}

// TestPluginSecretsAndTexts gives each server of a plugin the secrets that its package asks for it, in variables and
// headers, and replaces texts of its tools.
func TestPluginSecretsAndTexts(t *testing.T) {
	processtest.Leaks(t)
	var mu sync.Mutex
	got := http.Header{}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return hosttest.OfficialServer() }, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got = r.Header.Clone()
		mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f := newPlugin(t, "reports", map[string]any{"extensions": map[string]any{agentplugin.Namespace: map[string]any{
		"secrets": map[string]any{
			"a":   map[string]any{"env": map[string]string{"REPORTS_KEY": "secret://reports"}},
			"api": map[string]any{"headers": map[string]string{"x-key": "Key secret://hub"}},
		},
		"tools": map[string]any{
			"a": map[string]any{
				"look": map[string]any{
					"description": "Looks around.",
					"annotations": map[string]any{"readOnlyHint": true},
				},
				"gone": map[string]any{"title": "Is not there"},
			},
		},
	}}})
	f.stdio("a", map[string]string{"REPORTS_KEY": "of the package"}, nil)
	f.stdio("b", nil, nil)
	f.add("api", map[string]any{"type": "streamable-http", "url": server.URL + "/mcp",
		"headers": map[string]string{"X-Key": "of the package"}})
	h := f.Open((&vault{values: map[string]string{"reports": "s1", "hub": "s2"}}).options())
	if s := look(t, h, "ext_reports_a_look"); s.Env["REPORTS_KEY"] != "s1" {
		t.Errorf("REPORTS_KEY is %q", s.Env["REPORTS_KEY"])
	}
	if s := look(t, h, "ext_reports_b_look"); s.Env["REPORTS_KEY"] != "" {
		t.Errorf("another server has the secret: %q", s.Env["REPORTS_KEY"])
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_reports_api_upper", map[string]any{"text": "a"}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	if values := got.Values("X-Key"); !slices.Equal(values, []string{"Key s2"}) {
		t.Errorf("X-Key is %q", values)
	}
	mu.Unlock()
	for tool, want := range map[string]string{"ext_reports_a_look": "Looks around.",
		"ext_reports_b_look": "Returns how it was started."} {
		e, _ := h.Tools().Lookup(tool)
		if e == nil || !strings.Contains(string(e.Raw), want) ||
			strings.Contains(string(e.Raw), `"readOnlyHint":true`) != (tool == "ext_reports_a_look") {
			t.Errorf("%s: %+v", tool, e)
		}
	}
	if !slices.ContainsFunc(h.Status().Diagnostics, func(d protocol.Diagnostic) bool {
		return d.Extension == "reports.a" && strings.Contains(d.Message, `texts for the tool "gone"`)
	}) {
		t.Errorf("%v", h.Status().Diagnostics)
	}
}

// TestPluginTables applies the tables of io.github.exthost to every server of a plugin, and lets them restrict it.
func TestPluginTables(t *testing.T) {
	processtest.Leaks(t)
	t.Setenv("REPORTS_TOKEN", "given")
	t.Setenv("OTHER_TOKEN", "canary")
	f := newPlugin(t, "reports", map[string]any{"extensions": map[string]any{agentplugin.Namespace: map[string]any{
		"requires": map[string]any{"env": []string{"REPORTS_TOKEN"}},
		"runtime":  map[string]any{"activation": "lazy", "max_in_flight": 2},
	}}})
	f.Write("reports/"+agentplugin.Namespace+"/"+agentplugin.TablesName, "[context]\npassthrough = true\n")
	f.stdio("a", nil, nil)
	f.stdio("b", nil, nil)
	h := f.Open(exthost.Options{})
	if s := hosttest.StatusOf(t, h, "reports.b"); s.Activation != "lazy" {
		t.Errorf("activation %q", s.Activation)
	}
	if s := look(t, h, "ext_reports_a_look"); s.Env["REPORTS_TOKEN"] != "given" || s.Env["OTHER_TOKEN"] != "" {
		t.Errorf("environment %v", s.Env)
	}
	f.writeJSON("plugin.json", map[string]any{
		"$schema": agentplugin.PluginSchema,
		"name":    "reports",
		"extensions": map[string]any{
			agentplugin.Namespace: map[string]any{"requires": map[string]any{"bins": []string{"no-such-program"}}},
		},
	})
	change, err := h.Admin().Reload(hosttest.Deadline(t))
	if err != nil || len(change.Kept) != 2 || !strings.Contains(change.Kept[0].Reason, "no-such-program") {
		t.Errorf("%+v, %v", change, err)
	}
	f.writeJSON("plugin.json", map[string]any{
		"$schema":    agentplugin.PluginSchema,
		"name":       "reports",
		"extensions": map[string]any{agentplugin.Namespace: map[string]any{"sandbx": map[string]any{}}},
	})
	change, err = h.Admin().Reload(hosttest.Deadline(t))
	if err != nil || len(change.Kept) != 2 || !strings.Contains(change.Kept[0].Reason, `did you mean "sandbox"?`) {
		t.Errorf("%+v, %v", change, err)
	}
	for _, d := range h.Status().Diagnostics {
		if d.Level == protocol.LevelError && d.Line == 0 {
			t.Errorf("no place: %v", d)
		}
	}
}

// TestPluginKeepsItsServer breaks mcp.json, whose server has the plugin's name: the server that runs is kept until the
// file is right again, or gone.
func TestPluginKeepsItsServer(t *testing.T) {
	processtest.Leaks(t)
	f := newPlugin(t, "reports", nil)
	f.stdio("reports", nil, nil)
	f.Write("reports/skills/s/SKILL.md", "---\nname: s\ndescription: d\n---\n")
	h := f.Open(exthost.Options{})
	reload := func() *status.Change {
		t.Helper()
		change, err := h.Admin().Reload(hosttest.Deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		return change
	}
	f.Write("reports/mcp.json", `{"mcpServers": {`)
	if c := reload(); len(c.Kept) != 1 || c.Kept[0].ID != "reports" ||
		!strings.Contains(c.Kept[0].Reason, "mcp.json") || len(c.Changed)+len(c.Removed) > 0 {
		t.Errorf("%+v", c)
	}
	look(t, h, "ext_reports_look")
	f.stdio("reports", map[string]string{"EDITION": "2"}, nil)
	if c := reload(); !slices.Equal(c.Changed, []string{"reports"}) {
		t.Errorf("%+v", c)
	}
	if s := look(t, h, "ext_reports_look"); s.Env["EDITION"] != "2" {
		t.Errorf("environment %v", s.Env)
	}
	if err := os.Remove(filepath.Join(f.Dir, "reports", "mcp.json")); err != nil {
		t.Fatal(err)
	}
	if c := reload(); !slices.Equal(c.Changed, []string{"reports"}) || len(hosttest.Names(h)) > 0 {
		t.Errorf("%+v, tools %q", c, hosttest.Names(h))
	}
}

// TestPluginTablesAreWatched takes over a changed tables.toml, which lies in a folder of its own.
func TestPluginTablesAreWatched(t *testing.T) {
	processtest.Leaks(t)
	f := newPlugin(t, "reports", nil)
	const tables = "reports/" + agentplugin.Namespace + "/" + agentplugin.TablesName
	f.Write(tables, "[runtime]\nmax_in_flight = 2\n")
	f.stdio("a", nil, nil)
	h, reloads := f.Watched(config.WatchReload, quick, exthost.Options{})
	f.Write(tables, "[runtime]\nactivation = \"lazy\"\n")
	if c := await(t, reloads); !slices.Equal(c.Changed, []string{"reports.a"}) {
		t.Errorf("%+v", c)
	}
	if s := hosttest.StatusOf(t, h, "reports.a"); s.Activation != "lazy" {
		t.Errorf("activation %q", s.Activation)
	}
}
