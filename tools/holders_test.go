package tools

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/protocol"
)

// A name that two extensions want stays with the first holder, whatever the order of the extensions, and while the
// holder is down, disabled or changed.
func TestNamesStayWithTheirHolder(t *testing.T) {
	owner := Source{Extension: "a_b", Tools: []protocol.Tool{raw(`{"name":"c"}`)}}
	newcomer := Source{Extension: "a", Tools: []protocol.Tool{raw(`{"name":"b_c"}`), raw(`{"name":"d"}`)}}
	down := Source{Extension: "a_b"}
	withheld := Source{Extension: "a_b", Tools: owner.Tools, Withheld: []string{"c"}}
	other := Source{Extension: "a_b", Tools: []protocol.Tool{raw(`{"name":"e"}`)}}
	for _, tt := range []struct {
		name  string
		steps [][]Source
		want  []string // extension/tool that hold the names in the end
		codes string
	}{
		{"the newcomer sorts first", [][]Source{{owner}, {newcomer, owner}}, []string{"a/d", "a_b/c"},
			"tool_name_taken"},
		{"the owner is down meanwhile", [][]Source{{owner}, {newcomer, down}}, []string{"a/d"}, "tool_name_taken"},
		{"the owner is back", [][]Source{{owner}, {newcomer, down}, {newcomer, owner}}, []string{"a/d", "a_b/c"},
			"tool_name_taken"},
		{"the owner's tool is withheld", [][]Source{{owner}, {newcomer, withheld}}, []string{"a/d"}, "tool_name_taken"},
		{"the owner is disabled", [][]Source{{owner}, {newcomer}}, []string{"a/b_c", "a/d"}, ""},
		{"the owner gave the tool up", [][]Source{{owner}, {newcomer, other}}, []string{"a/b_c", "a/d", "a_b/e"}, ""},
		{"neither had it", [][]Source{{newcomer, owner}}, []string{"a/d"}, "tool_name_taken tool_name_taken"},
		{"neither had it, and one goes", [][]Source{{newcomer, owner}, {owner}}, []string{"a_b/c"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c *Catalog
			var ds []protocol.Diagnostic
			for i, sources := range tt.steps {
				c, ds = NewCatalog(uint64(i), sources, c)
			}
			var got []string
			for _, e := range c.Entries() {
				got = append(got, e.Extension+"/"+e.Tool)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" || codes(ds) != tt.codes {
				t.Errorf("tools (-want +got):\n%s\n%v", diff, ds)
			}
		})
	}
}

// A hashed name of an extension's tool cannot be taken by the plain name of another extension's tool.
func TestHashedNamesStayWithTheirHolder(t *testing.T) {
	long := strings.Repeat("l", MaxName)
	owner := Source{
		Extension: "b",
		Tools:     []protocol.Tool{raw(`{"name":"x.y"}`), raw(`{"name":"x_y"}`), raw(`{"name":"` + long + `"}`)},
	}
	newcomer := Source{Extension: "a"} // registers first, and may use any name with its own prefix
	for _, own := range []string{"x.y", long} {
		name := hashedName("b", own)
		before, _ := NewCatalog(1, []Source{owner}, nil)
		if e, ok := before.Lookup(name); !ok || e.Tool != own {
			t.Fatalf("%s is %+v", name, e)
		}
		stolen := described{Source: newcomer, candidates: []candidate{{Tool: protocol.Tool{Name: own}, plain: name}}}
		for _, there := range []Source{owner, {Extension: "b"}} {
			next := &Catalog{}
			next.hold([]described{stolen, describe(there, before)}, before)
			if next.contested("a", own, name) == nil {
				t.Errorf("%s passes to another extension", name)
			}
		}
	}
}
