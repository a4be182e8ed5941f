package test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/listing/toolsearch"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// manyTools returns the manifest of an extension with n tools that run a command.
func manyTools(id string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[plugin]\nid = %q\nversion = \"0.1.0\"\ndescription = \"Keeps records of kind "+
		"%[1]s.\"\n[transport]\nkind = \"exec\"\ncommand = \"cat\"\n", id)
	for i := range n {
		fmt.Fprintf(&b, "[[tools]]\nname = \"entry_%d\"\ndescription = \"Returns record number %d of %s, with all "+
			"its fields, as they were when they were last stored.\"\n", i, i, id)
		b.WriteString("[tools.input_schema]\ntype = \"object\"\nproperties.since = { type = \"string\", description " +
			"= \"only what is newer than this date\" }\n")
	}
	return b.String()
}

// searching returns a session in search mode.
func searching(s protocol.Session) *protocol.Session {
	s.ToolMode = toolsearch.ModeSearch
	return &s
}

// listedTo returns the names in a session's tools/list.
func listedTo(t *testing.T, h *exthost.Host, s *protocol.Session) (names []string, result string) {
	t.Helper()
	raw, err := h.Do(hosttest.Deadline(t), &protocol.Call{Session: s, Method: protocol.MethodToolsList})
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names, string(raw)
}

// callAs calls a tool in a session and returns the text of the result or the error.
func callAs(t *testing.T, h *exthost.Host, s *protocol.Session, tool, arguments string) (text string, err error) {
	t.Helper()
	params := fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)
	raw, err := h.Do(hosttest.Deadline(t),
		&protocol.Call{Session: s, Method: protocol.MethodToolsCall, Params: json.RawMessage(params)})
	return protocol.ToolResult(raw).Text(), err
}

// Clients of every mode list, find and call tools.
func TestSearchModeListsAndCalls(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Add("store", manyTools("store", 30))
	cfg := f.Config()
	cfg.Tools.Mode, cfg.Tools.Favourites, cfg.Tools.SearchAbove = toolsearch.ModeAuto, []string{
		"ext_x_gr*",
		"ext_none_*",
	}, 500
	cfg.Server.Clients = map[string]config.Client{"ada": {Mode: toolsearch.ModeAll}}
	none := ""
	cfg.Toolsets = map[string]config.Toolset{
		"bare": {Prefix: &none},
		"shut": {Exclude: []string{"ext_find"}},
		"few":  {Include: []string{"ext_x_*"}},
	}
	h := f.OpenWith(cfg, exthost.Options{})
	short := []string{"ext_destroy", "ext_find", "ext_read", "ext_write", "ext_x_greet"}
	for _, test := range []struct {
		name string
		s    *protocol.Session
		want []string // nil: all
	}{
		{"a client", &protocol.Session{}, short},
		{"that searches", searching(protocol.Session{}), short},
		{"that says what it is",
			&protocol.Session{Version: protocol.MCP20251125, ClientInfo: json.RawMessage(`{"name":"some-client"}`)},
			short},
		{"that loads tools on demand",
			&protocol.Session{ClientInfo: json.RawMessage(`{"name":"claude-code","version":"2"}`)}, nil},
		{"that does and searches", searching(protocol.Session{ClientInfo: json.RawMessage(`{"name":"claude-code"}`)}),
			short},
		{"ada", &protocol.Session{Caller: "ada"}, nil},
		{"ada who searches", searching(protocol.Session{Caller: "ada"}), short},
		{"with a toolset", &protocol.Session{Toolset: "bare"}, []string{"ext_destroy", "ext_find", "ext_read", "ext_write", "x_greet"}},
		{"with a short list", &protocol.Session{Toolset: "few"}, nil},
		{"to whom the search is hidden", &protocol.Session{Toolset: "shut"}, nil},
	} {
		got, _ := listedTo(t, h, test.s)
		var entries []string
		list, err := h.Toolsets().Listed(test.s)
		for _, e := range list {
			entries = append(entries, e.Name)
		}
		if !slices.Equal(got, entries) || err != nil {
			t.Errorf("%s is listed %q, and in Go %q, %v", test.name, got, entries, err)
		}
		if test.want == nil && len(got) < 5 || slices.Contains(got, "ext_find") != (test.want != nil) ||
			test.want != nil && !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	if names, _ := listedTo(t, h, nil); len(names) != 38 {
		t.Errorf("a Go program gets %q", names)
	}
	if _, err := h.Toolsets().Listed(&protocol.Session{Toolset: "none"}); protocol.KindOf(err) !=
		protocol.ToolNotFound {
		t.Errorf("the list of a toolset that there is not: %v", err)
	}
	for _, s := range []*protocol.Session{nil, {}, {Toolset: "bare"}, {Caller: "ada"}} {
		text, err := callAs(t, h, s, "ext_find", `{"query":"greet somebody"}`)
		name := "ext_x_greet"
		if s != nil && s.Toolset == "bare" {
			name = "x_greet"
		}
		if err != nil || !strings.HasPrefix(text, "The tools that match best:\n{\"name\":\""+name+"\"") {
			t.Errorf("found: %s, %v", text, err)
		}
		for _, call := range []string{name, "ext_write"} {
			arguments := `{"name":"Ada"}`
			if call == "ext_write" {
				arguments = fmt.Sprintf(`{"tool":%q,"arguments":{"name":"Ada"}}`, name)
			}
			if text, err := callAs(t, h, s, call, arguments); err != nil || !strings.Contains(text, "Ada") {
				t.Errorf("%s: %s, %v", call, text, err)
			}
		}
	}
	if got := warnings(h, "toolset_unmatched"); len(got) > 0 {
		t.Errorf("the status says %q", got)
	}
	one := searching(protocol.Session{Extension: "store"})
	raw, err := h.Do(hosttest.Deadline(t),
		&protocol.Call{Session: one, Extension: "store", Method: protocol.MethodToolsList})
	if err != nil || !strings.Contains(string(raw), `"name":"entry_29"`) {
		t.Errorf("the client of one extension is listed %s, %v", raw, err)
	}
	for _, tool := range []string{"ext_find", "ext_write"} {
		_, err := h.Do(hosttest.Deadline(t),
			&protocol.Call{
				Session:   one,
				Extension: "store",
				Method:    protocol.MethodToolsCall,
				Params:    json.RawMessage(`{"name":"` + tool + `","arguments":{"query":"x","tool":"entry_1"}}`),
			})
		if protocol.KindOf(err) != protocol.ToolNotFound {
			t.Errorf("the client of one extension calls %s: %v", tool, err)
		}
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_write",
		map[string]any{"tool": "ext_x_greet", "arguments": map[string]any{"name": "Ada"}}); err != nil {
		t.Error(err)
	}
}

// Only the caller can tell a call by ext_write from a direct one: policies, hooks, audit log, counts and errors are
// the same.
func TestExtCallEqualsADirectCall(t *testing.T) {
	processtest.Leaks(t)
	policy, hooked := &sentinel{}, make(chan string, 100)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	cfg := f.Config()
	cfg.Audit.Path = filepath.Join(t.TempDir(), "audit.jsonl")
	cfg.Plugins = []governance.Spec{
		{Name: "access", Builtin: "access", Category: governance.Authorization,
			Config: map[string]any{"rules": []any{map[string]any{"effect": "deny", "tools": []any{"ext_x_die"}}}}},
		pinSpec(filepath.Join(t.TempDir(), "exthost.lock"), governance.ModeEnforce),
	}
	for n := range cfg.Plugins {
		cfg.Plugins[n].Normalize()
	}
	note := func(e *hooks.Event) { hooked <- string(e.Point) + " " + e.Tool + " " + string(e.Payload) }
	h := f.OpenWith(cfg, exthost.Options{
		Policies: []governance.Member{member("sentinel", governance.Authorization, policy)},
		Hooks: []hooks.Handler{{Name: "notes", Point: hooks.BeforeToolCall,
			Run: func(_ context.Context, e *hooks.Event) (*hooks.Reply, error) {
				note(e)
				return nil, nil
			}}},
	})
	s := searching(protocol.Session{ID: "s", Version: protocol.MCP20251125, Caller: "ada"})
	for _, call := range [][2]string{
		{"ext_x_greet", `{"name":"Ada"}`}, {"ext_x_greet", `{"nam":"Ada"}`}, {"ext_x_greet", `{}`},
		{"ext_x_fail", `{}`}, {"ext_x_refuse", `{}`},
		{"ext_x_die", `{}`}, {"ext_x_dei", `{}`}, {"ext_none_at_all", `{}`},
		{"ext_x_echo", `{"n":12345678901234567890,"u":{"_meta":1}}`}, {"ext_x_echo", `{"_meta":{"a":1}}`},
		{strings.Repeat("n", 5000), `{}`},
	} {
		ask := func(tool, arguments string) (seen []string) {
			policy.seen = nil
			text, err := callAs(t, h, s, tool, arguments)
			seen = append(policy.seen, text, fmt.Sprint(err), string(protocol.KindOf(err)))
			for len(hooked) > 0 {
				seen = append(seen, <-hooked)
			}
			last := h.Admin().Calls(1)
			return append(seen, last[0].Tool, string(last[0].Outcome))
		}
		want := ask(call[0], call[1])
		got := ask("ext_write", fmt.Sprintf(`{"tool":%q,"arguments":%s}`, call[0], call[1]))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%.50s %s (-direct +by ext_write):\n%s", call[0], call[1], diff)
		}
	}
	for arguments, want := range map[string]string{
		`{}`: "tool", `{"tool":5}`: "tool", `{"tool":""}`: "tool", `{"tool":"ext_x_greet","arguments":[]}`: "arguments",
		`{"tool":"ext_x_greet","arguments":{"name":"Ada"},"more":1}`: "more",
		`{"tool":"ext_write","arguments":{"tool":"ext_x_greet"}}`:    "calls no ext_write",
	} {
		if text, err := callAs(t, h, s, "ext_write", arguments); protocol.KindOf(err) != protocol.InvalidArguments ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("ext_write %s: %s, %v", arguments, text, err)
		}
	}
	text, err := callAs(t, h, s, "ext_read", `{"tool":"ext_find","arguments":{"query":"let it die, and greet"}}`)
	if err != nil || !strings.Contains(text, "ext_x_greet") || strings.Contains(text, "ext_x_die") {
		t.Errorf("ext_find by ext_read: %s, %v", text, err)
	}
}

// A toolset's prefix cannot give an extension's tool the name of a search tool, whose calls it would then get.
func TestSearchKeepsItsNames(t *testing.T) {
	processtest.Leaks(t)
	exec := "[transport]\nkind = \"exec\"\ncommand = \"cat\"\n[[tools]]\nname = \"find\"\n[[tools]]\nname = " +
		"\"call\"\n[[tools]]\nname = \"other\"\n"
	f := hosttest.NewFolder(t).Add("ext", exec)
	cfg := f.Config()
	none := ""
	cfg.Toolsets = map[string]config.Toolset{"bare": {Prefix: &none}}
	h := f.OpenWith(cfg, exthost.Options{})
	for _, s := range []*protocol.Session{{Toolset: "bare"}, searching(protocol.Session{Toolset: "bare"})} {
		if text, err := callAs(t, h, s, "ext_find", `{"query":"other"}`); err != nil ||
			!strings.HasPrefix(text, "The tools that match best:\n{\"name\":\"ext_other\"") {
			t.Errorf("ext_find: %s, %v", text, err)
		}
		if names, _ := listedTo(t, h, s); s.ToolMode == "" && !slices.Equal(names, []string{"ext_other"}) {
			t.Errorf("listed %q", names)
		}
	}
	if got := warnings(h, "toolset_ambiguous"); len(got) != 2 {
		t.Errorf("the status says %q", got)
	}
}

// A client in search mode keeps its list, and gets no notifications, while 50 reloads replace 500 tools.
func TestSearchListSurvivesReloads(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	for n := range 10 {
		f.Add(fmt.Sprintf("store%d", n), manyTools(fmt.Sprintf("store%d", n), 50))
	}
	h := f.Open(exthost.Options{})
	all, search := hosttest.NewRecorder(), hosttest.NewRecorder()
	s := searching(protocol.Session{ID: "search", Client: search})
	for _, one := range []*protocol.Session{{ID: "all", Client: all}, s} {
		if err := h.Attach(hosttest.Deadline(t), one); err != nil {
			t.Fatal(err)
		}
	}
	names, first := listedTo(t, h, s)
	tokens := 0
	for _, e := range toolsearch.Own().Entries() {
		if slices.Contains(names, e.Name) {
			tokens += e.Tokens()
		}
	}
	whole := 0
	for _, e := range h.Tools().Entries() {
		whole += e.Tokens()
	}
	t.Logf("%d tools: %d tokens, as a search %d", len(h.Tools().Entries()), whole, tokens)
	if tokens > 600 || len(h.Tools().Entries()) != 500 || len(names) != 4 {
		t.Errorf("%d tokens of %q, want at most 600", tokens, names)
	}
	for n := range 50 {
		f.Add("store0", manyTools("store0", 1+n))
		reload(t, h)
		wait(t, all.On, protocol.MethodToolsListChanged)
		if _, now := listedTo(t, h, s); now != first {
			t.Fatalf("after %d reloads the list is\n%s\nand was\n%s", n+1, now, first)
		}
		text, err := callAs(t, h, s, "ext_find", fmt.Sprintf(`{"query":"entry number %d of store0"}`, n))
		if err != nil || !strings.Contains(text, fmt.Sprintf(`"ext_store0_entry_%d"`, n)) {
			t.Fatalf("the new tool is not found: %s, %v", text, err)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if n := count(search, protocol.MethodToolsListChanged); n != 0 {
		t.Errorf("told %d times of a list that stayed", n)
	}
}

// What a policy hides from a caller is neither found nor called.
func TestPoliciesHideFromSearch(t *testing.T) {
	f := hosttest.NewFolder(t).Add("store", manyTools("store", 12)).Add("other", manyTools("other", 12))
	cfg := f.Config()
	cfg.Tools.Mode = toolsearch.ModeSearch
	rule := func(effect, caller string, patterns ...any) map[string]any {
		return map[string]any{"effect": effect, "callers": []any{caller}, "tools": patterns}
	}
	spec := governance.Spec{
		Name:     "access",
		Builtin:  "access",
		Category: governance.Authorization,
		Config: map[string]any{
			"rules": []any{
				rule("deny", "ada", "ext_store_*"),
				rule("deny", "bob", "ext_*_entry_?"),
				rule("deny", "eve", "ext_*"),
			},
		},
	}
	spec.Normalize()
	cfg.Plugins = []governance.Spec{spec}
	h := f.OpenWith(cfg, exthost.Options{})
	for caller, hides := range map[string]func(e *tools.Entry) bool{
		"ada": func(e *tools.Entry) bool { return e.Extension == "store" },
		"bob": func(e *tools.Entry) bool { return len(e.Tool) == len("entry_1") },
		"eve": func(*tools.Entry) bool { return true },
		"dan": func(*tools.Entry) bool { return false },
	} {
		s := &protocol.Session{Caller: caller}
		names, _ := listedTo(t, h, s)
		search := []string{"ext_destroy", "ext_find", "ext_read", "ext_write"}
		if caller != "eve" && !slices.Equal(names, search) || caller == "eve" && len(names) != 0 {
			t.Errorf("%s is listed %q", caller, names)
		}
		for _, e := range h.Tools().Entries() {
			text, err := callAs(t, h, s, "ext_find",
				fmt.Sprintf(`{"query":"%s record of %s"}`, strings.ReplaceAll(e.Tool, "_", " "), e.Extension))
			if (err != nil) != (caller == "eve") {
				t.Fatalf("%s: %v", caller, err)
			}
			for _, other := range h.Tools().Entries() {
				if hides(other) && strings.Contains(text, other.Name+`"`) ||
					hides(other) && strings.Contains(text, other.Name+"(") {
					t.Errorf("%s finds %s, which is hidden", caller, other.Name)
				}
			}
			if !hides(e) && !strings.Contains(text, e.Name) {
				t.Errorf("%s does not find %s: %s", caller, e.Name, text)
			}
			if _, err := callAs(t, h, s, "ext_write",
				fmt.Sprintf(`{"tool":"%sx"}`, e.Name)); protocol.KindOf(err) != protocol.ToolNotFound ||
				hides(e) && strings.Contains(err.Error(), fmt.Sprintf("mean %q", e.Name)) {
				t.Errorf("%s calls what is nearly %s: %v", caller, e.Name, err)
			}
			_, err = callAs(t, h, s, "ext_write", fmt.Sprintf(`{"tool":%q}`, e.Name))
			if rejected := protocol.KindOf(err) == protocol.Rejected; rejected != hides(e) {
				t.Errorf("%s calls %s: %v", caller, e.Name, err)
			}
		}
	}
	for caller, want := range map[string]int{"ada": toolsearch.MaxBest, "eve": 0} {
		if found, err := h.Toolsets().Find("", caller, "record"); err != nil || len(found.Best) != want {
			t.Errorf("Find as %s: %+v, %v", caller, found, err)
		}
	}
}
