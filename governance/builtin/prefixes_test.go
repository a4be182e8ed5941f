package builtin_test

import (
	"fmt"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/internal/text/glob"
)

// An allow pattern covers the tools of the extension that it names, a deny pattern every tool
// that it matches.
func TestPatternsMeanOneExtension(t *testing.T) {
	ids := func(ids ...string) glob.Prefixes {
		p := make(glob.Prefixes)
		for _, id := range ids {
			p[id] = map[string]string{
				"a":          "ext_a_",
				"a_b":        "ext_a_b_",
				"a.b":        "ext_a_b_",
				"notes":      "ext_notes_",
				"notes_evil": "ext_notes_evil_",
			}[id]
		}
		return p
	}
	for _, tt := range []struct {
		pattern, extension, tool string
		known                    glob.Prefixes
		allows                   bool
	}{
		{"ext_a_b_*", "a_b", "ext_a_b_c", ids("a", "a_b"), true},
		{"ext_a_b_*", "a", "ext_a_b_c", ids("a", "a_b"), false},
		{"ext_a_b_c", "a", "ext_a_b_c", ids("a", "a_b"), false},
		{"ext_a_b_*", "a", "ext_a_b_c", ids("a"), true},
		{"ext_notes_*", "notes", "ext_notes_evil_x", ids("notes"), true},
		{"ext_notes_*", "notes_evil", "ext_notes_evil_x", ids("notes", "notes_evil"), false},
		{"ext_notes_evil_x", "notes_evil", "ext_notes_evil_x", ids("notes", "notes_evil"), true},
		{"ext_*", "notes_evil", "ext_notes_evil_x", ids("notes", "notes_evil"), true},
		{"*_x", "notes_evil", "ext_notes_evil_x", ids("notes", "notes_evil"), true},
		{"ext_notes*", "notes_evil", "ext_notes_evil_x", ids("notes", "notes_evil"), true},
		{"ext_a_b_*", "a.b", "ext_a_b_c", ids("a.b", "a_b"), false},
		{"ext_a_b_*", "a_b", "ext_a_b_c", ids("a.b", "a_b"), true},
		{"ext_a_b_*", "a.b", "ext_a_b_c", ids("a", "a.b"), true},
		{"ext_a_b_*", "a", "ext_a_b_c", ids("a", "a.b"), false},
	} {
		x := governance.Exchange{Method: "tools/call", Extension: tt.extension, Tool: tt.tool, ToChild: true}
		for effect, want := range map[string]bool{"allow": tt.allows, "deny": false} {
			otherwise := map[string]string{"allow": "deny", "deny": "allow"}[effect]
			p := newPolicy(t, "access",
				fmt.Sprintf(`{"default":%q,"rules":[{"effect":%q,"tools":[%q]}]}`, otherwise, effect, tt.pattern))
			p.(builtin.Namer).Name(tt.known)
			d, err := p.Decide(t.Context(), governance.Request, &x)
			if got := d.Action == governance.Allow; err != nil || got != want ||
				p.(governance.Visibler).Visible("", governance.Tool{Extension: tt.extension, Name: tt.tool}) != want {
				t.Errorf("%s %s on %s of %s: allowed %v, %v", effect, tt.pattern, tt.tool, tt.extension, got, err)
			}
		}
	}
}
