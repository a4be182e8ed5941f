package mcpext

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func declare(server, extensions string) Source {
	list, _ := Read(json.RawMessage(`{"extensions":` + extensions + `}`))
	return Source{server, list}
}

func TestMerge(t *testing.T) {
	for _, c := range []struct{ first, second, want, problem string }{
		{`{"a":1,"b":[1,{"x":null}]}`, `{ "b":[ 1,{"x":null} ],"a":1 }`, `{"a":1,"b":[1,{"x":null}]}`, ""},
		{`{}`, `{"a":1}`, `{"a":1}`, ""},
		{`{"a":{"b":{"c":1}}}`, `{"a":{"b":{"d":2}},"e":3}`, `{"a":{"b":{"c":1,"d":2}},"e":3}`, ""},
		{`{"a":{"b":1},"x":[1]}`, `{"a":{"b":2},"x":[2],"y":0}`, `{"a":{"b":1},"x":[1],"y":0}`, "those: a.b, x"},
		{`{"a":{"b":1}}`, `{"a":7}`, `{"a":{"b":1}}`, "those: a"},
		{`{"n":12345678901234567890}`, `{"n":12345678901234567891}`, `{"n":12345678901234567890}`, "those: n"},
		{`{"t":"` + strings.Repeat("x", 8000) + `"}`, `{"u":"` + strings.Repeat("x", 8000) + `"}`,
			`{"t":"` + strings.Repeat("x", 8000) + `"}`, "its settings as a whole"},
	} {
		m := Merge([]Source{declare("a", `{"com.acme/x":`+c.first+`}`), declare("b", `{"com.acme/x":`+c.second+`}`)})
		if len(m.List) != 1 || string(m.List[0].Settings) != c.want {
			t.Errorf("%s and %s merge to %s", c.first, c.second, Encode(m.List))
		}
		if (c.problem == "") != (len(m.Problems) == 0) ||
			c.problem != "" && (m.Problems[0].Server != "b" || !strings.HasSuffix(m.Problems[0].Text, c.problem)) {
			t.Errorf("%s and %s: problems %q", c.first, c.second, m.Problems)
		}
	}
}

func TestOwners(t *testing.T) {
	m := Merge([]Source{
		declare("a", `{"com.evil/skills":{"directoryRead":true},"io.modelcontextprotocol/tasks":{},"com.acme/Tools":{},"io.modelcontextprotocol/oauth-client-credentials":{}}`),
		declare("b", `{"io.modelcontextprotocol/skills":{}}`),
		declare("c", `{"io.modelcontextprotocol/skills":{"directoryRead":true}}`),
	})
	for method, want := range map[string]string{
		"skills/list":              "b c",
		"skills/get":               "b c",
		"resources/directory/read": "c",
		"resources/read":           "",
		"tasks/get":                "",
		"tools/list":               "",
		"Tools/list":               "",
		"other/x":                  "",
	} {
		if got := strings.Join(m.Owners(method), " "); got != want {
			t.Errorf("%s is served by %q, want %q", method, got, want)
		}
	}
	for method, want := range map[string]bool{
		"skills/list":              true,
		"resources/directory/read": true,
		"resources/read":           false,
		"Tools/list":               false,
		"ping":                     false,
		"/x":                       false,
		"x/":                       false,
		"notifications/x":          false,
	} {
		if MayOwn(method) != want {
			t.Errorf("MayOwn(%s) is %v", method, !want)
		}
	}
	if got := string(Encode(m.List)); strings.Contains(got, "oauth") || !strings.Contains(got, "com.evil/skills") {
		t.Errorf("offered: %s", got)
	}
}

// TestMergeIsBounded merges many declarations.
func TestMergeIsBounded(t *testing.T) {
	var sources []Source
	for n := range 10 {
		var ids []string
		for i := range maxIDs {
			ids = append(ids, fmt.Sprintf(`"com.s%d/x%d":{}`, n, i))
		}
		sources = append(sources, declare(fmt.Sprint(n), `{`+strings.Join(ids, ",")+`}`))
	}
	m := Merge(sources)
	if len(m.List) != maxMerged {
		t.Errorf("%d are offered", len(m.List))
	}
	if i := slices.IndexFunc(m.Problems, func(p Problem) bool { return p.Server == "9" }); i < 0 ||
		len(m.Problems) > 10*(maxProblems+1) {
		t.Errorf("%d problems, that of 9 at %d", len(m.Problems), i)
	}
}

// TestMergeIsBoundedInSize merges the largest allowed settings, and settings nested too deep to merge at a bounded
// cost.
func TestMergeIsBoundedInSize(t *testing.T) {
	text := `"` + strings.Repeat("x", maxSettings-20) + `"`
	declared := func(key string) string {
		var ids []string
		for i := range maxIDs {
			ids = append(ids, fmt.Sprintf(`"com.acme/x%d":{"%s":%s}`, i, key, text))
		}
		return `{` + strings.Join(ids, ",") + `}`
	}
	small := `{"com.acme/small0":{"n":{}},"com.acme/small1":{"n":{}}}`
	m := Merge([]Source{declare("a", small), declare("b", declared("t")), declare("c", declared("u"))})
	if size := len(Encode(m.List)); size > maxTotal+8*len(m.List) || len(m.List) < 10 {
		t.Errorf("%d extensions in %d bytes are offered", len(m.List), size)
	}
	if !slices.ContainsFunc(m.Problems,
		func(p Problem) bool { return p.Server == "b" && strings.Contains(p.Text, "together have more than") }) {
		t.Errorf("problems: %q", m.Problems)
	}
	nested := func(depth int) string {
		return strings.Repeat(`{"a":`, depth-1) + `{"b":[]}` + strings.Repeat("}", depth-1)
	}
	list, problems := Read(json.RawMessage(`{"extensions":{"com.acme/flat":` + nested(maxDepth-1) +
		`,"com.acme/deep":` + nested(maxDepth) + `}}`))
	if len(list) != 1 || len(problems) != 1 ||
		!strings.Contains(problems[0], `"com.acme/deep" is ignored: its settings are nested more than 16 deep`) {
		t.Errorf("%d are read, problems %q", len(list), problems)
	}
}
