package test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// tracker is an extension that returns the arguments of its tools.
const tracker = `[transport]
kind = "exec"
command = "cat"
[[tools]]
name = "create_issue"
description = "Creates an issue in a repository."
[tools.input_schema]
type = "object"
required = ["repo", "title", "labels"]
properties.repo = { type = "string", description = "owner/name" }
properties.title = { type = "string" }
properties.labels = { type = "array", items = { type = "string" } }
properties.assignee = { type = "string" }
[[tools]]
name = "list"
description = "Lists issues."
[tools.input_schema]
type = "object"
properties.state = { enum = ["open", "closed"] }
[[tools]]
name = "gone"
[tools.input_schema]
type = "object"
properties.other = {}
`

// shapes is a toolset of the tools of [tracker].
func shapes() config.Toolset {
	return config.Toolset{
		Include: []string{"ext_github_*"},
		Tools: map[string]config.ShownTool{
			"ext_github_create_issue": {
				Name:     "file_bug",
				Describe: "Files a bug in our tracker.",
				Args: map[string]config.ShownArg{
					"repo":     {Fix: "acme/tracker"},
					"labels":   {Default: []any{"bug"}},
					"title":    {Describe: "What breaks."},
					"assignee": {Hide: true},
				},
				Result: config.ShownResult{Keep: []string{"title", "labels"}},
			},
			"ext_github_gone": {Args: map[string]config.ShownArg{"repo": {Fix: "acme/tracker"}}},
			"ext_github_lits": {Describe: "Misspelled."},
		},
	}
}

// reader is a policy that notes what requests it decides about. The test makes one call after another.
type reader struct{ seen []string }

func (r *reader) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if flow == governance.Request && x.Method == protocol.MethodToolsCall {
		r.seen = append(r.seen, x.Tool+" "+string(x.Request))
	}
	return governance.Decision{}, nil
}

// A client of a toolset calls a tool in the shape that the toolset states, by every way to call it. Policies, hooks and
// the tool see the registered name and the arguments as they are sent.
func TestToolsInAnotherShape(t *testing.T) {
	processtest.Leaks(t)
	policy, hooked := &reader{}, make(chan string, 100)
	f := hosttest.NewFolder(t).Add("github", tracker)
	cfg := f.Config()
	cfg.Toolsets = map[string]config.Toolset{"triage": shapes()}
	h := f.OpenWith(cfg, exthost.Options{
		Policies: []governance.Member{member("reader", governance.Authorization, policy)},
		Hooks: []hooks.Handler{{Name: "notes", Point: hooks.BeforeToolCall,
			Run: func(_ context.Context, e *hooks.Event) (*hooks.Reply, error) {
				hooked <- e.Tool + " " + string(e.Payload)
				return nil, nil
			}}},
	})
	s := &protocol.Session{Toolset: "triage"}
	names, list := listedTo(t, h, s)
	if !slices.Equal(names, []string{"ext_github_list", "file_bug"}) || strings.Contains(list, "assignee") ||
		strings.Contains(list, "repo\"") || !strings.Contains(list, `"description":"What breaks."`) ||
		!strings.Contains(list, `"default":["bug"]`) || !strings.Contains(list, `"required":["title"]`) {
		t.Errorf("listed %q: %s", names, list)
	}
	const sent = `{"title":"It breaks","repo":"acme/tracker","labels":["bug"]}`
	for _, call := range [][2]string{
		{"file_bug", `{"title":"It breaks"}`},
		{"ext_write", `{"tool":"file_bug","arguments":{"title":"It breaks"}}`},
	} {
		policy.seen = nil
		text, err := callAs(t, h, s, call[0], call[1])
		if err != nil || text != `{"title":"It breaks","labels":["bug"]}` {
			t.Errorf("%s %s: %s, %v", call[0], call[1], text, err)
		}
		if got := <-hooked; got != "ext_github_create_issue "+sent {
			t.Errorf("hooks see %s", got)
		}
		if seen := strings.Join(policy.seen, "\n"); !strings.Contains(seen, sent) ||
			!strings.Contains(seen, "ext_github_create_issue") {
			t.Errorf("policies see %s", seen)
		}
	}
	one := &protocol.Session{Toolset: "triage", Extension: "github"}
	raw, err := doAs(t, h, one, "github", protocol.MethodToolsCall,
		`{"name":"create_issue","arguments":{"title":"It breaks","labels":[]}}`)
	if err != nil || protocol.ToolResult(raw).Text() != `{"title":"It breaks","labels":[]}` {
		t.Errorf("by its own name: %s, %v", raw, err)
	}
	<-hooked
	for _, bad := range [][2]string{
		{"file_bug", `{"title":"x","repo":"evil/repo"}`}, {"file_bug", `{"title":"x","Repo":"evil/repo"}`},
		{"file_bug", `{"title":"x","assignee":"eve"}`}, {"file_bug", `{}`}, {"file_bug", `{"title":1}`},
		{"ext_write", `{"tool":"file_bug","arguments":{"title":"x","repo":"evil/repo"}}`},
	} {
		policy.seen = nil
		if text, err := callAs(t, h, s, bad[0], bad[1]); protocol.KindOf(err) != protocol.InvalidArguments ||
			len(policy.seen) > 0 || strings.Contains(fmt.Sprint(err), "acme") {
			t.Errorf("%s %s: %s, %v; policies saw %q", bad[0], bad[1], text, err, policy.seen)
		}
	}
	for _, tool := range []string{"ext_github_create_issue", "ext_github_gone", "gone"} {
		if _, err := callAs(t, h, s, tool, `{"title":"x","repo":"evil/repo"}`); protocol.KindOf(err) != protocol.ToolNotFound {
			t.Errorf("%s: %v", tool, err)
		}
	}
	if text, err := callAs(t, h, s, "ext_find", `{"query":"file a bug in the tracker"}`); err != nil ||
		!strings.Contains(text, `{"name":"file_bug","callWith":"ext_write"`) || strings.Contains(text, "assignee") {
		t.Errorf("found %s, %v", text, err)
	}
	if text, err := callAs(t, h, s, "ext_find", `{"query":"assignee of a repository"}`); err != nil ||
		strings.HasPrefix(text, "The tools") {
		t.Errorf("found by what is not shown: %s, %v", text, err)
	}
	want := []string{
		`: toolsets.triage: "ext_github_lits" of tools is no tool that there is`,
		`: toolsets.triage: ext_github_gone is held back, in no list and not called: it has no argument "repo"; there are other`,
	}
	got := append(warnings(h, "toolset_unmatched"), warnings(h, "toolset_held")...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the status says (-want +got):\n%s", diff)
	}
	// without the toolset nothing is changed
	if text, err := callAs(t, h, nil, "ext_github_create_issue", `{"repo":"a/b","title":"x","labels":[]}`); err != nil ||
		text != `{"repo":"a/b","title":"x","labels":[]}` {
		t.Errorf("without a toolset: %s, %v", text, err)
	}
	<-hooked
	tool, _ := h.Tools().Lookup("ext_github_create_issue")
	if !strings.Contains(string(rawjson.Get(json.RawMessage(tool.Descriptor), "inputSchema")), "assignee") {
		t.Errorf("without a toolset: %s", tool.Descriptor)
	}
}

// A program's toolsets are checked as those of files are: a value that cannot be sent would not be fixed.
func TestOpenRefusesToolsets(t *testing.T) {
	cfg := config.Default()
	cfg.Toolsets = map[string]config.Toolset{"triage": {Tools: map[string]config.ShownTool{
		"ext_github_create_issue": {Args: map[string]config.ShownArg{"repo": {Fix: func() {}}}},
	}}}
	h, err := exthost.Open(t.Context(), cfg, exthost.Options{StateDir: t.TempDir()})
	if err == nil {
		h.Close()
	}
	const place = "toolsets.triage.tools.ext_github_create_issue.args.repo.fix: is no JSON value"
	if protocol.KindOf(err) != protocol.ConfigInvalid || !strings.Contains(fmt.Sprint(err), place) {
		t.Error(err)
	}
}
