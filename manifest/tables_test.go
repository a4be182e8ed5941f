package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tablesOf reads tables from a member x of a JSON file, and from a TOML file unless that is "".
func tablesOf(json, toml string) (Tables, []string) {
	s := TablesSource{JSONPath: "p.json", TOMLPath: "t.toml"}
	s.Servers = func() map[string]string { return map[string]string{"files": KindStdio, "web": KindHTTP, "bad": ""} }
	if json != "" {
		s.JSON, s.Keys = []byte("{\n\"x\": "+json+"}"), []string{"x"}
	}
	if toml != "" {
		s.TOML = []byte(toml)
	}
	t, diags := ParseTables("reports", s)
	var texts []string
	for _, d := range diags {
		texts = append(texts, d.String())
	}
	return t, texts
}

func TestTablesOfBothFiles(t *testing.T) {
	got, problems := tablesOf(`{
		"sandbox": {"profile": "node", "net": ["api.example.com:443"]},
		"requires": {"bins": ["node"], "hint": {"node": "install it"}},
		"runtime": {"call_timeout": "5s", "max_in_flight": 2, "limits": {"memory": "1GiB"}}
	}`, "[context]\npassthrough = true\n[[hooks]]\nevent = \"PreToolUse\"\ncommand = \"./guard.sh x\"\n")
	if problems != nil {
		t.Fatal(problems)
	}
	m := mustParse(t, minimal+`[sandbox]
profile = "node"
net = ["api.example.com:443"]
[requires]
bins = ["node"]
hint = { node = "install it" }
[runtime]
call_timeout = "5s"
max_in_flight = 2
limits.memory = "1GiB"
[context]
passthrough = true
[[hooks]]
event = "PreToolUse"
command = "./guard.sh x"
`)
	want := Tables{
		Requires: m.Requires,
		Context:  m.Context,
		Runtime:  m.Runtime,
		Sandbox:  m.Sandbox,
		Hooks:    m.Hooks,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-plugin.toml +tables):\n%s", diff)
	}
}

func TestTablesAreStrict(t *testing.T) {
	for name, tt := range map[string]struct{ json, toml, want string }{
		"none":        {"", "", ""},
		"empty":       {"{}", "", ""},
		"unknown":     {`{"sandbx": {}}`, "", `p.json:2:7: unknown key "sandbx" at the top level; did you mean "sandbox"?`},
		"nested":      {"", "[runtime]\ncall_timout = 5\n", `t.toml:2:1: unknown key "call_timout" in [runtime]; did you mean "call_timeout"?`},
		"of a toml":   {"", "[transport]\ncommand = \"x\"\n", `unknown key "transport"`},
		"twice":       {`{"context": {"passthrough": true}}`, "[context]\npassthrough = false\n", "context.passthrough is already defined at p.json:2"},
		"wrong type":  {`{"requires": {"bins": "node"}}`, "", "requires.bins: want an array of strings, got"},
		"null":        {`{"runtime": null}`, "", "runtime: want a table, got null"},
		"wrong value": {`{"runtime": {"max_in_flight": 0}}`, "", "runtime.max_in_flight: max_in_flight is at least 1, not 0"},
		"sandbox":     {`{"sandbox": {"read": ["../x"]}}`, "", "p.json:2:"},
		"hook":        {`{"hooks": [{"event": "nope", "command": "x"}]}`, "", "is not a hook point"},
		"platform":    {`{"requires": {"os": ["macos"]}}`, "", `did you mean "darwin"?`},
		"no TOML":     {"", "x = [", "t.toml:1:"},
		"unknown server": {`{"secrets": {"file": {"env": {"KEY": "secret://k"}}}}`, "",
			`secrets: the package has no server "file"; did you mean "files"?`},
		"unknown server of tools": {`{"tools": {"wbe": {"x": {"title": "X"}}}}`, "",
			`tools: the package has no server "wbe"; did you mean "web"?`},
		"key of secrets":       {`{"secrets": {"files": {"envs": {}}}}`, "", `did you mean "env"?`},
		"key of a tool":        {`{"tools": {"web": {"x": {"descripton": "X"}}}}`, "", `did you mean "description"?`},
		"literal secret":       {`{"secrets": {"files": {"env": {"KEY": "hunter2"}}}}`, "", "refers to no stored secret"},
		"reserved variable":    {`{"secrets": {"files": {"env": {"PLUGIN_DATA": "secret://k"}}}}`, "", "cannot be set"},
		"variables of a URL":   {`{"secrets": {"web": {"env": {"KEY": "secret://k"}}}}`, "", "has no environment"},
		"headers of a process": {`{"secrets": {"files": {"headers": {"X": "secret://k"}}}}`, "", "gets no headers"},
		"no header":            {`{"secrets": {"web": {"headers": {"X Y": "secret://k"}}}}`, "", "not the name of a header"},
		"invalid server":       {`{"secrets": {"bad": {"env": {"KEY": "secret://k"}}}}`, "", ""},
		"name of a tool":       {"", "[tools.web.\"a b\"]\ntitle = \"x\"\n", "is no name of a tool"},
		"number of a tool":     {"", "[tools.web.x.annotations]\ny = nan\n", "JSON has no number"},
		"good": {`{"secrets": {"web": {"headers": {"Authorization": "Bearer secret://k"}}},
			"tools": {"web": {"x": {"annotations": {"readOnlyHint": true}}}}}`, "", ""},
		"the operator": {`{"runtime": {"replay": "idempotent"}}`, "", "that is for the operator to decide"},
	} {
		_, problems := tablesOf(tt.json, tt.toml)
		if got := strings.Join(problems, "\n"); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestOwnerOf(t *testing.T) {
	for id, want := range map[string]string{"weather": "weather", "weather.db": "weather", "acme.tools.db": "acme.tools"} {
		owner, server := OwnerOf(id)
		if owner != want || server != (owner != id) {
			t.Errorf("%s: %s, %v", id, owner, server)
		}
	}
}
