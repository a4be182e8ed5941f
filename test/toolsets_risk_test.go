package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// risky is an extension whose tools say what they can do; [risk] says otherwise of some.
const risky = `[transport]
kind = "exec"
command = "cat"
[[tools]]
name = "get"
annotations = { readOnlyHint = true }
[[tools]]
name = "put"
[[tools]]
name = "rm"
annotations = { destructiveHint = true }
[[tools]]
name = "peek"
[[tools]]
name = "wipe"
annotations = { destructiveHint = true }
[[tools]]
name = "sly"
annotations = { readOnlyHint = true }
[[tools]]
name = "safe"
annotations = { destructiveHint = true }
[risk]
peek = "read"
wipe = "read"
`

// operators are the operator's words about the tools of [risky], one of them misspelled.
func operators() map[string]config.ToolEntry {
	return map[string]config.ToolEntry{
		"sly":  {Risk: protocol.RiskDestroy},
		"safe": {Risk: protocol.RiskWrite},
		"rn":   {Risk: protocol.RiskDestroy},
	}
}

// risks are what calls of the tools of [risky] can do: by annotations, by the manifest unless a tool says that it is
// destructive, and by the operator in any case.
var risks = map[string]protocol.Risk{
	"get": "read", "put": "write", "rm": "destroy", "peek": "read", "wipe": "destroy", "sly": "destroy", "safe": "write",
}

// callerOf names the tool that calls tools of a risk.
var callerOf = map[protocol.Risk]string{"read": "ext_read", "write": "ext_write", "destroy": "ext_destroy"}

// callsByRisk calls each tool of [risky] through each of the host's tools that call others. Only the one for the tool's
// risk may succeed; the errors of the others must name it. prefix begins the names of the tools.
func callsByRisk(t *testing.T, h *exthost.Host, s *protocol.Session, prefix string) {
	t.Helper()
	for tool, risk := range risks {
		for _, by := range []string{"ext_read", "ext_write", "ext_destroy", "ext_call"} {
			text, err := callAs(t, h, s, by, fmt.Sprintf(`{"tool":%q,"arguments":{"n":1}}`, prefix+tool))
			switch right := callerOf[risk]; {
			case by == right:
				if err != nil || text != `{"n":1}` {
					t.Errorf("%s by %s: %s, %v", tool, by, text, err)
				}
			case protocol.KindOf(err) != protocol.InvalidArguments ||
				!strings.Contains(err.Error(), "is called with "+right+", not with "+by):
				t.Errorf("%s by %s: %s, %v", tool, by, text, err)
			}
		}
	}
}

func TestRisksOfTools(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("kit", risky)
	cfg := f.Config()
	cfg.Extensions.Entries = map[string]config.Entry{"kit": {Tools: operators()}}
	cfg.Toolsets = map[string]config.Toolset{"look": {Risk: []protocol.Risk{protocol.RiskRead}}}
	access := governance.Spec{
		Name:     "children",
		Builtin:  "access",
		Category: governance.Authorization,
		Config: map[string]any{"rules": []any{
			map[string]any{"effect": "deny", "risk": []any{"destroy"}, "callers": []any{"child"}},
		}},
	}
	matched := governance.Spec{
		Name:     "nobody",
		Builtin:  "access",
		Category: governance.Authorization,
		Match: governance.Match{
			Risk:    []protocol.Risk{protocol.RiskWrite, protocol.RiskDestroy},
			Callers: []string{"guest"},
		},
		Config: map[string]any{"default": "deny"},
	}
	access.Normalize()
	matched.Normalize()
	cfg.Plugins = []governance.Spec{access, matched}
	h := f.OpenWith(cfg, exthost.Options{})
	for tool, want := range risks {
		if e, ok := h.Tools().Lookup("ext_kit_" + tool); !ok || e.Risk != want {
			t.Errorf("%s: %+v, want %s", tool, e.Risk, want)
		}
	}
	misspelled := func(text string) bool {
		return strings.HasPrefix(text, "kit: ") && strings.Contains(text, `names "rn"`)
	}
	if got := warnings(h, "pattern_unmatched"); !slices.ContainsFunc(got, misspelled) {
		t.Errorf("the misspelled name: %q", got)
	}
	callsByRisk(t, h, searching(protocol.Session{}), "ext_kit_")

	// policies
	for caller, denied := range map[string][]protocol.Risk{
		"child": {"destroy"},
		"guest": {"write", "destroy"},
		"ada":   nil,
	} {
		s := &protocol.Session{Caller: caller}
		names, _ := listedTo(t, h, s)
		for tool, risk := range risks {
			_, err := callAs(t, h, s, "ext_kit_"+tool, `{}`)
			if no := slices.Contains(denied, risk); no != (protocol.KindOf(err) == protocol.Rejected) ||
				no == slices.Contains(names, "ext_kit_"+tool) {
				t.Errorf("%s calls %s: %v, and is listed %q", caller, tool, err, names)
			}
		}
		search, _ := listedTo(t, h, searching(*s))
		if slices.Contains(search, "ext_destroy") == (caller == "child") || !slices.Contains(search, "ext_read") {
			t.Errorf("%s searches with %q", caller, search)
		}
	}

	// a toolset of tools that read
	look := protocol.Session{Toolset: "look"}
	if names, _ := listedTo(t, h, &look); !slices.Equal(names, []string{"ext_kit_get", "ext_kit_peek"}) {
		t.Errorf("the toolset shows %q", names)
	}
	if names, _ := listedTo(t, h, searching(look)); !slices.Equal(names, []string{"ext_find", "ext_read"}) {
		t.Errorf("the toolset searches with %q", names)
	}
	for _, tool := range []string{"ext_kit_rm", "ext_kit_put", "ext_kit_sly"} {
		if _, err := callAs(t, h, &look, tool, `{}`); protocol.KindOf(err) != protocol.ToolNotFound {
			t.Errorf("a session of the toolset calls %s: %v", tool, err)
		}
		if _, err := callAs(t, h, &look, "ext_destroy", fmt.Sprintf(`{"tool":%q}`, tool)); protocol.KindOf(err) !=
			protocol.ToolNotFound {
			t.Errorf("a session of the toolset calls %s by ext_destroy: %v", tool, err)
		}
	}
}

// With tools.call: one, ext_call calls every tool, and the others are not there.
func TestOneToolCallsAll(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("kit", risky)
	cfg := f.Config()
	cfg.Tools.Call = "one"
	h := f.OpenWith(cfg, exthost.Options{})
	s := searching(protocol.Session{})
	if names, _ := listedTo(t, h, s); !slices.Equal(names, []string{"ext_call", "ext_find"}) {
		t.Errorf("listed %q", names)
	}
	text, err := callAs(t, h, s, "ext_find", `{"query":"wipe"}`)
	if err != nil || strings.Contains(text, "callWith") || !strings.Contains(text, "Call one with ext_call:") {
		t.Errorf("found %s, %v", text, err)
	}
	for tool := range risks {
		arguments := fmt.Sprintf(`{"tool":"ext_kit_%s","arguments":{"n":1}}`, tool)
		if text, err := callAs(t, h, s, "ext_call", arguments); err != nil || text != `{"n":1}` {
			t.Errorf("%s: %s, %v", tool, text, err)
		}
		_, err := callAs(t, h, s, "ext_read", fmt.Sprintf(`{"tool":"ext_kit_%s"}`, tool))
		if err == nil || !strings.Contains(err.Error(), "with ext_call, not with ext_read") {
			t.Errorf("%s by ext_read: %v", tool, err)
		}
	}
}

// A node is told the risks that the operator and the manifest of another node have stated, and its own operator's word
// counts before these.
func TestRisksOfOtherNodes(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	owner := hosttest.NewFolder(t).Add("kit", risky)
	cfg := owner.Config()
	cfg.Extensions.Entries = map[string]config.Entry{"kit": {Tools: operators()}}
	owner.OpenWith(cfg, exthost.Options{Cluster: w.node("gpu1", peers.AsMine)})
	f := hosttest.NewFolder(t)
	own := f.Config()
	own.Extensions.Entries = map[string]config.Entry{"gpu1.kit": {Tools: map[string]config.ToolEntry{
		"put": {Risk: protocol.RiskDestroy},
	}}}
	front := f.OpenWith(own, exthost.Options{Cluster: w.node("web", peers.AsMine)})
	awaitTool(t, front, "ext_gpu1_kit_safe", true)
	if e, _ := front.Tools().Lookup("ext_gpu1_kit_put"); e.Risk != protocol.RiskDestroy {
		t.Errorf("by the word of the front's operator put is %s", e.Risk)
	}
	if _, err := callAs(t, front, nil, "ext_destroy", `{"tool":"ext_gpu1_kit_put"}`); err != nil {
		t.Error(err)
	}
	g := hosttest.NewFolder(t)
	other := g.Open(exthost.Options{Cluster: w.node("other", peers.AsMine)})
	awaitTool(t, other, "ext_gpu1_kit_safe", true)
	callsByRisk(t, other, searching(protocol.Session{}), "ext_gpu1_kit_")
}
