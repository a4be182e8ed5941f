package toolset

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// view makes the view of a toolset over the extensions a, a_b and git, each with a tool log in the catalog.
func view(t *testing.T, d Definition) (*View, []protocol.Diagnostic) {
	t.Helper()
	tool := []protocol.Tool{{Name: "log", Raw: json.RawMessage(`{"name":"log","inputSchema":{"type":"object"}}`)}}
	ids := []string{"a", "a_b", "git"}
	var sources []tools.Source
	var all []Extension
	for _, id := range ids {
		sources, all = append(sources, tools.Source{Extension: id, Tools: tool}), append(all,
			Extension{ID: id, Opaque: true})
	}
	all = append(all, Extension{ID: "gone", Absent: true})
	catalog, _ := tools.NewCatalog(1, sources, nil)
	defined := map[string]Definition{"x": d}
	views := NewViews(defined, catalog, all, nil)
	v, err := views.Of("x")
	if err != nil {
		t.Fatal(err)
	}
	return v, views.Unmatched(defined, catalog, all)
}

// A hidden resource stays hidden when its URI is spelled in other ways.
func TestURIsCountInEachReading(t *testing.T) {
	hides, _ := view(t, Definition{Exclude: []string{"ext_git_file:///etc/*", "ext_git_repo://host/secret"}})
	shows, _ := view(t, Definition{Include: []string{"ext_git_file:///project/*"}})
	for _, uri := range []string{
		"file:///etc/passwd", "FILE:///etc/passwd", "file:///project/../etc/passwd",
		"file:///project/%2e%2e/etc/passwd", "file:///%65tc/passwd", "file:////etc/passwd",
		"file:///project/..%2fetc/passwd", "file:///project/%252e%252e/etc/passwd", `file:///project/..\etc/passwd`,
		"file:///./etc/passwd", "file:///etc/./passwd",
		"repo://HOST/secret", "repo://host/x/../secret", "file:///project/%25252525252e/x",
		// equal when parsed by a library of the URL Standard
		" file:///etc/passwd", "\x01file:///etc/passwd", "fi\tle:///etc/passwd", "file:///e\ntc/passwd",
		"file:/etc/passwd", "file:etc/passwd", "file://localhost/etc/passwd",
		`file:\\\etc\passwd`, "file:///project/.%2e/etc/passwd", "repo://host/secret#x", "repo://host/secret\r\n",
		"repo://host/%2e/secret",
		// equal after two steps
		"file:///%65tc//../passwd", "file:///project/a%2fb/../../%65tc/passwd", "repo://host/a%2fb/../%73ecret",
		"file:///e%09tc/passwd",
	} {
		if hides.Resource("git", uri) || shows.Resource("git", uri) {
			t.Errorf("%s is shown", uri)
		}
	}
	for _, uri := range []string{
		"file:///project/a",
		"file:///project/b/",
		"file:///project/100%",
		"file:///project/%20x",
		"file:///project/{path}",
		"file:///project/{+path}",
		"file:///project/a?x=1#y",
	} {
		if !hides.Resource("git", uri) || !shows.Resource("git", uri) {
			t.Errorf("%s is hidden", uri)
		}
	}
	inside, _ := view(t, Definition{Exclude: []string{"ext_git_https://inside/*", "ext_git_http://127.0.0.1*"}})
	for _, uri := range []string{
		"https:inside/x", `https:\\inside\x`, "https:///inside/x", "https://inside", "https://INSIDE:443/x",
		"https://you@inside/x", "https://inside./x", "https://ins%69de/x", "https://ⓘnside/x",
		"http://127.1/", "http://0x7f.0.0.1/", "http://2130706433", "http://127.0.0.1:80", "http://127.0.0.01/",
	} {
		if inside.Resource("git", uri) {
			t.Errorf("%s is shown", uri)
		}
	}
	for _, uri := range []string{
		"https://outside/x",
		"https://outside:8443/x?y=/../inside",
		"http://10.0.0.1:80/",
		"http://[::1]:8080/x",
		"https://1.example/x",
		"urn:a:b",
		"x",
		"",
	} {
		if !inside.Resource("git", uri) {
			t.Errorf("%s is hidden", uri)
		}
	}
	if shows.Resource("a", "file:///project/a") {
		t.Error("that of another extension is shown")
	}
}

// A pattern of include selects only the extension with the longest prefix that it begins with, one of exclude all
// that it matches.
func TestPatternsMeanOneExtension(t *testing.T) {
	v, _ := view(t, Definition{Include: []string{"ext_a_*"}})
	if !v.Admits("a", "ext_a_log") || v.Admits("a_b", "ext_a_b_log") || v.Reaches("a_b") || v.Resource("a_b", "x:y") {
		t.Error("ext_a_* means a_b too, or not a")
	}
	v, _ = view(t, Definition{Exclude: []string{"ext_a_*"}})
	if v.Admits("a", "ext_a_log") || v.Admits("a_b", "ext_a_b_log") || !v.Reaches("git") {
		t.Error("an exclusion of ext_a_* leaves something, or takes others")
	}
}

// Params that an extension may read differently are refused.
func TestTwoReadingsAreRefused(t *testing.T) {
	v, _ := view(t, Definition{Include: []string{"ext_git_*"}, Exclude: []string{"*secret*"}})
	for _, c := range []struct {
		method, params string
		ok             bool
	}{
		{"resources/read", `{"uri":"x:a"}`, true}, {"resources/read", `{"uri":"x:secret"}`, false},
		{"resources/read", `{"uri":"x:a","uri":"x:secret"}`, false},
		{"resources/read", `{"uri":"x:a","URI":"x:secret"}`, false}, {"resources/read", `{"uri":["x:secret"]}`, false},
		{"resources/read", `{}`, false}, {"resources/read", `7`, false},
		{"prompts/get", `{"name":"plan"}`, true}, {"prompts/get", `{"name":"secret"}`, false},
		{"prompts/get", `{"Name":"secret"}`, false},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"plan"}}`, true},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"secret","uri":"x:a"}}`, false},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"x:secret"}}`, false},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"x:a"},"Ref":{}}`, false},
		{"skills/get", `{"uri":"skill://x/SKILL.md"}`, true}, {"skills/get", `{"uri":"skill://secret"}`, false},
		{"skills/get", `{"name":"x"}`, false}, {"skills/get", `{"uri":"x:a","id":7}`, false},
		{"acme/run", `{"uri":"x:a","_meta":{}}`, true}, {"acme/run", `{"uri":"x:a","tool":"secret"}`, false},
		{"acme/run", `{"uri":"x:a","uris":["x:secret"]}`, false},
		{"acme/who", `{}`, false}, {"resources/directory/read", `{"uri":"x:secret"}`, false},
		{"logging/setLevel", `{"level":"debug"}`, true},
		{"notifications/roots/list_changed", ``, true},
		{"notifications/progress", `{"progressToken":1,"progress":2}`, true},
		{"notifications/acme/ran", `{"uri":"x:a"}`, true},
		{"notifications/acme/ran", `{"uri":"x:secret"}`, false}, {"notifications/acme/ran", `{"tool":"secret"}`, false},
		{"notifications/acme/ran", ``, false},
	} {
		if err := v.Check("git", c.method, json.RawMessage(c.params)); (err == nil) != c.ok {
			t.Errorf("%s %s: %v", c.method, c.params, err)
		}
		if v.Check("a", c.method, json.RawMessage(c.params)) == nil {
			t.Errorf("%s reaches a", c.method)
		}
	}
	whole, _ := view(t, Definition{Include: []string{"ext_git_*"}})
	if err := whole.Check("git", "acme/who", nil); err != nil {
		t.Errorf("of all of git: %v", err)
	}
}

// Hidden items are removed from the lists of an extension.
func TestListsAreLookedThrough(t *testing.T) {
	v, _ := view(t, Definition{
		Exclude:  []string{"*secret*"},
		Describe: map[string]string{"ext_git_log": "What was done."},
	})
	for _, c := range []struct{ method, result, want string }{
		{"tools/list", `{"tools":[{"name":"log","description":"x"},{"name":"secret"}],"nextCursor":"y"}`,
			`{"tools":[{"name":"log","description":"What was done."}],"nextCursor":"y"}`},
		{"prompts/list", `{"cacheScope":"public","prompts":[{"name":"a","Name":"secret"},{"name":"b"}]}`,
			`{"cacheScope":"private","prompts":[{"name":"b"}]}`},
		{"resources/list", `{"resources":[{"uri":"x:secret"}],"Resources":[{"uri":"x:secret"}]}`, `{"resources":[]}`},
		{"resources/templates/list", `{"resourceTemplates":[{"uriTemplate":"x:{a}"},7]}`,
			`{"resourceTemplates":[{"uriTemplate":"x:{a}"}]}`},
		{"skills/list", `{"skills":[{"uri":"skill://secret/SKILL.md"},{"uri":"skill://a/SKILL.md"},{"name":"z"}],"all":["secret"],"nextCursor":"2"}`, `{"skills":[{"uri":"skill://a/SKILL.md"}],"nextCursor":"2"}`},
		{"resources/list", `{"resources":"none"}`, `{"resources":[]}`},
		{"resources/read", `{"contents":[]}`, `{"contents":[]}`},
	} {
		if got := string(v.Filter("git", c.method, json.RawMessage(c.result))); got != c.want {
			t.Errorf("%s leaves %s, want %s", c.method, got, c.want)
		}
	}
}

// Misspelled names and patterns are reported once everything is known.
func TestUnmatched(t *testing.T) {
	long := strings.Repeat("p", 32)
	_, diags := view(t, Definition{
		Include:  []string{"ext_gti_*", "ext_git_log", "ext_gone_*", "ext_git_note:*"},
		Exclude:  []string{"ext_gti_log"},
		Prefix:   &long,
		Describe: map[string]string{"ext_git_lgo": "x", "ext_a_log": "x"},
	})
	var texts []string
	for _, d := range diags {
		texts = append(texts, d.Message+" | "+d.Hint)
	}
	want := []string{
		`toolsets.x: "ext_a_log" of describe is a tool that the toolset does not show | take the name out of describe, or into include`,
		`toolsets.x: "ext_gti_*" of include matches nothing that there is | did you mean "ext_git_*"? exthost tools list shows the names`,
		`toolsets.x: "ext_gti_log" of exclude matches nothing that there is | did you mean "ext_git_log"? exthost tools list shows the names`,
	}
	if strings.Join(texts, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(texts, "\n"))
	}
}

func TestUnknownNamesTheNearOne(t *testing.T) {
	if err := Unknown("reveiw", map[string]Definition{"review": {}}); !strings.Contains(err.Error(),
		`did you mean "review"`) {
		t.Error(err)
	}
}

// FuzzReadings: a reading of a reading is a reading too.
func FuzzReadings(f *testing.F) {
	for _, seed := range []string{"file:///a/../b", "%25%32%65", "a:b", "x://H/%2e/?q#f", "//a", "", `\\..`,
		"http:a%2fb/..//%2e", "\tx:\n/", "https://1.2.3.4:443"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		all, ok := readings(uri)
		if !ok {
			return
		}
		for _, one := range all {
			for _, other := range func() []string { list, _ := readings(one); return list }() {
				if !slices.Contains(all, other) {
					t.Errorf("%q is read as %q, and that as %q", uri, one, other)
				}
			}
		}
	})
}

// A toolset of risks shows the tools of these, and of what is not in the catalog, whose risk is not known, nothing
// unless it shows what may destroy.
func TestRisksSelectTools(t *testing.T) {
	tool := func(name, annotations string) protocol.Tool {
		return protocol.Tool{Raw: json.RawMessage(`{"name":"` + name + `","annotations":` + annotations + `}`)}
	}
	catalog, _ := tools.NewCatalog(1, []tools.Source{{Extension: "git", Tools: []protocol.Tool{
		tool("log", `{"readOnlyHint":true}`), tool("commit", `{}`), tool("gc", `{"destructiveHint":true}`),
	}}}, nil)
	all := []Extension{{ID: "git", Opaque: true}, {ID: "dest", Opaque: true}}
	for _, test := range []struct {
		risks  []protocol.Risk
		shows  string // of the tools of git
		others bool   // tools that are not in the catalog
	}{
		{nil, "commit gc log", true},
		{[]protocol.Risk{"read"}, "log", false},
		{[]protocol.Risk{"read", "write"}, "commit log", false},
		{[]protocol.Risk{"destroy"}, "gc", true},
	} {
		views := NewViews(map[string]Definition{"x": {Risk: test.risks}}, catalog, all, nil)
		v, _ := views.Of("x")
		var names []string
		for _, e := range v.Tools(catalog).Entries() {
			names = append(names, e.Tool)
		}
		if got := strings.Join(names, " "); got != test.shows {
			t.Errorf("%q shows %s, want %s", test.risks, got, test.shows)
		}
		for _, name := range []string{"log", "commit", "gc"} {
			if has := v.Has("git", "ext_git_"+name); has != slices.Contains(names, name) {
				t.Errorf("%q has tasks of %s: %t", test.risks, name, has)
			}
		}
		call := json.RawMessage(`{"name":"any","arguments":{}}`)
		list := v.Filter("dest", protocol.MethodToolsList, json.RawMessage(`{"tools":[{"name":"any"}]}`))
		if calls := v.Check("dest", protocol.MethodToolsCall, call) == nil; calls != test.others ||
			v.Has("dest", "ext_dest_any") != test.others || strings.Contains(string(list), "any") != test.others {
			t.Errorf("%q: a tool of a destination is called: %t, and listed %s", test.risks, calls, list)
		}
		if v.Check("dest", protocol.MethodPromptsGet, call) != nil || !v.Resource("git", "file:///x") {
			t.Errorf("%q hides what is no tool", test.risks)
		}
		if whole := v.whole("git"); whole != (test.risks == nil) {
			t.Errorf("%q shows all of git: %t", test.risks, whole)
		}
	}
	for _, p := range (&Definition{Risk: []protocol.Risk{}}).validate() {
		if p.Key != "risk" {
			t.Errorf("an empty list of risks: %+v", p)
		}
	}
}

// Every error in the shapes of tools is found with the configuration, as far as it is there to see.
func TestShapesAreChecked(t *testing.T) {
	yes := true
	for _, test := range []struct {
		d    Definition
		want string // keys of the problems
	}{
		{Definition{Tools: map[string]ShownTool{"ext_git_log": {Name: "log", Args: map[string]Arg{
			"a": {Fix: false}, "b": {Default: 0}, "c": {Hide: true}, "d": {Describe: "x"},
		}, Annotations: Annotations{ReadOnlyHint: &yes}, Result: Result{Keep: []string{"a/*/b"}, MaxTokens: 1}}}}, ""},
		{Definition{Tools: map[string]ShownTool{"ext_git_log": {}}}, "tools.ext_git_log"},
		{Definition{Tools: map[string]ShownTool{"ext_git_log": {Name: "log"}, "ext_a_log": {Name: "log"}}},
			"tools.ext_git_log.name"},
		{Definition{Tools: map[string]ShownTool{"ext_git_log": {Name: "ext_find"}, "ext_a_log": {Name: "a b"}}},
			"tools.ext_a_log.name tools.ext_git_log.name"},
		{Definition{
			Tools:    map[string]ShownTool{"ext_git_log": {Describe: "x"}},
			Describe: map[string]string{"ext_git_log": "y"},
		}, "tools.ext_git_log.describe"},
		{Definition{Tools: map[string]ShownTool{"ext_git_log": {Args: map[string]Arg{
			"a": {}, "b": {Fix: 1, Hide: true}, "c": {Fix: 1, Describe: "x"}, "d": {Hide: true, Default: 1},
		}}}}, "tools.ext_git_log.args.a tools.ext_git_log.args.b tools.ext_git_log.args.c.describe " +
			"tools.ext_git_log.args.d"},
		{Definition{Tools: map[string]ShownTool{"ext_git_log": {Result: Result{Keep: []string{}}}}},
			"tools.ext_git_log tools.ext_git_log.result.keep"},
		{Definition{Tools: map[string]ShownTool{"ext_git_log": {Result: Result{Keep: []string{"", "a//b", "c", "c"}}}}},
			"tools.ext_git_log.result.keep tools.ext_git_log.result.keep tools.ext_git_log.result.keep"},
	} {
		var keys []string
		for _, p := range test.d.validate() {
			keys = append(keys, p.Key)
		}
		if got := strings.Join(keys, " "); got != test.want {
			t.Errorf("%+v: %s, want %s", test.d, got, test.want)
		}
	}
}

// A tool of which a toolset states a shape is never shown without it: not where no descriptor of it is known, and not
// by requests that may be about anything.
func TestShapesHoldWithoutDescriptors(t *testing.T) {
	v, diags := view(t, Definition{Tools: map[string]ShownTool{
		"ext_git_push": {Args: map[string]Arg{"remote": {Fix: "origin"}}},
		"ext_git_log":  {Name: "history"},
		"ext_none_log": {Name: "nothing"},
	}})
	call := json.RawMessage(`{"name":"push","arguments":{}}`)
	if v.ShowsTool("git", "push") || v.Check("git", protocol.MethodToolsCall, call) == nil || v.whole("git") {
		t.Error("push is called as it is")
	}
	if !v.ShowsTool("a", "push") || !v.whole("a") {
		t.Error("what is not reshaped is hidden")
	}
	e, ok := v.Tools(nil).Lookup("history")
	native, known := v.Native("history")
	if !ok || e.Registered() != "ext_git_log" || !known || native != "ext_git_log" {
		t.Errorf("history: %v, %s", e, native)
	}
	if _, ok := v.Tools(nil).Lookup("ext_git_log"); ok || v.Shaped("ext_git_log") != e {
		t.Error("the registered name works too")
	}
	if len(diags) != 1 || !strings.Contains(diags[0].Message, `"ext_none_log" of tools is no tool`) {
		t.Errorf("%v", diags)
	}
	clash, diags := view(t, Definition{Tools: map[string]ShownTool{"ext_git_log": {Name: "ext_a_log"}}})
	if _, ok := clash.Tools(nil).Lookup("ext_a_log"); ok || len(diags) != 2 || diags[0].Code != CodeAmbiguous {
		t.Errorf("two tools of one name: %v", diags)
	}
}
