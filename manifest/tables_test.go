package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tablesOf reads tables from a member x of a JSON file, and from a TOML file unless that is "".
func tablesOf(json, toml string) (Tables, []string) {
	s := TablesSource{JSONPath: "p.json", TOMLPath: "t.toml"}
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
	want := Tables{m.Requires, m.Context, m.Runtime, m.Sandbox, m.Hooks}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-plugin.toml +tables):\n%s", diff)
	}
}

func TestTablesAreStrict(t *testing.T) {
	for name, tt := range map[string]struct{ json, toml, want string }{
		"none":         {"", "", ""},
		"empty":        {"{}", "", ""},
		"unknown":      {`{"sandbx": {}}`, "", `p.json:2:7: unknown key "sandbx" at the top level; did you mean "sandbox"?`},
		"nested":       {"", "[runtime]\ncall_timout = 5\n", `t.toml:2:1: unknown key "call_timout" in [runtime]; did you mean "call_timeout"?`},
		"of a toml":    {"", "[transport]\ncommand = \"x\"\n", `unknown key "transport"`},
		"twice":        {`{"context": {"passthrough": true}}`, "[context]\npassthrough = false\n", "context.passthrough is already defined at p.json:2"},
		"wrong type":   {`{"requires": {"bins": "node"}}`, "", "requires.bins: want an array of strings, got"},
		"null":         {`{"runtime": null}`, "", "runtime: want a table, got null"},
		"wrong value":  {`{"runtime": {"max_in_flight": 0}}`, "", "runtime.max_in_flight: max_in_flight is at least 1, not 0"},
		"sandbox":      {`{"sandbox": {"read": ["../x"]}}`, "", "p.json:2:"},
		"hook":         {`{"hooks": [{"event": "nope", "command": "x"}]}`, "", "is not a hook point"},
		"platform":     {`{"requires": {"os": ["macos"]}}`, "", `did you mean "darwin"?`},
		"no TOML":      {"", "x = [", "t.toml:1:"},
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
