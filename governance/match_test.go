package governance_test

import (
	"path"
	"strings"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/protocol"
)

func TestMatch(t *testing.T) {
	x := governance.Exchange{
		Method:    "tools/call",
		Caller:    "team/ada",
		Extension: "x",
		Tool:      "ext_x_work",
		ToChild:   true,
	}
	up := governance.Exchange{Method: "sampling/createMessage", Caller: "team/ada", Extension: "x"}
	of := func(node string) governance.Exchange { y := x; y.Node = node; return y }
	risky := func(risk protocol.Risk) governance.Exchange { y := x; y.Risk = risk; return y }
	tests := []struct {
		name  string
		match governance.Match
		x     governance.Exchange
		want  bool
	}{
		{"everything", governance.Match{}, x, true},
		{"tool", governance.Match{Tools: []string{"a", "ext_x_*"}}, x, true},
		{"another tool", governance.Match{Tools: []string{"a", "ext_y_*"}}, x, false},
		{"no tool", governance.Match{Tools: []string{"ext_x_*"}}, up, false},
		{"method", governance.Match{Methods: []string{"tools/*"}}, x, true},
		{"any method", governance.Match{Methods: []string{"*"}}, x, true},
		{"caller", governance.Match{Callers: []string{"team/a?a"}}, x, true},
		{"node", governance.Match{Nodes: []string{"a", "gpu?"}}, of("gpu1"), true},
		{"another node", governance.Match{Nodes: []string{"a", "gpu?"}}, of("web"), false},
		{"no node", governance.Match{Nodes: []string{"gpu?"}}, x, false},
		{"other nodes", governance.Match{Nodes: []string{"?*"}}, of("web"), true},
		{"other nodes, this host", governance.Match{Nodes: []string{"?*"}}, x, false},
		{"any node", governance.Match{Nodes: []string{"*"}}, of("web"), true},
		{"any node, this host", governance.Match{Nodes: []string{"*"}}, x, true},
		{"this host", governance.Match{Nodes: []string{"a", "."}}, x, true},
		{"this host, another", governance.Match{Nodes: []string{"."}}, of("web"), false},
		{"all have to fit", governance.Match{Methods: []string{"tools/*"}, Extensions: []string{"y"}}, x, false},
		{"down", governance.Match{Direction: []string{"to_extension"}}, x, true},
		{"not down", governance.Match{Direction: []string{"to_extension"}}, up, false},
		{"up", governance.Match{Direction: []string{"to_c*"}}, up, true},
		{"risk", governance.Match{Risk: []protocol.Risk{"read", "write"}}, risky("write"), true},
		{"another risk", governance.Match{Risk: []protocol.Risk{"read", "write"}}, risky("destroy"), false},
		{"a risk that is not known", governance.Match{Risk: []protocol.Risk{"destroy"}}, x, true},
		{"a risk that is none", governance.Match{Risk: []protocol.Risk{"destroy"}}, risky("harmless"), true},
		{"a risk that is not known is not low", governance.Match{Risk: []protocol.Risk{"read"}}, x, false},
		{"no tool has no risk", governance.Match{Risk: protocol.Risks()}, up, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range []governance.Category{governance.Observability, governance.Validation, governance.Audit} {
				m := member("p", c, always(governance.Decision{Action: governance.Deny}))
				m.Spec.Match = tt.match
				p, x := newPipeline(t, governance.Options{}, m), tt.x
				err := p.Govern(t.Context(), &x, answer(`{}`, nil))
				if (protocol.KindOf(err) == protocol.Rejected) != tt.want {
					t.Errorf("%s: %v", c, err)
				}
			}
		})
	}
}

// hides is a policy that hides tools with the suffix.
type hides struct {
	policyFunc
	suffix string
}

var _ governance.Visibler = hides{}

func (h hides) Visible(_ string, t governance.Tool) bool {
	if h.suffix == "" {
		panic("no suffix")
	}
	return !strings.HasSuffix(t.Name, h.suffix)
}

func TestVisible(t *testing.T) {
	hide := func(suffix string, change func(*governance.Spec)) governance.Member {
		m := member("hide "+suffix, governance.Authorization, hides{always(governance.Decision{}), suffix})
		change(&m.Spec)
		return m
	}
	p := newPipeline(t, governance.Options{},
		member("blind", governance.Authorization, always(governance.Decision{})),
		hide("_secret", func(*governance.Spec) {}),
		hide("_shadow", func(s *governance.Spec) { s.Mode = governance.ModeShadow }),
		hide("_off", func(s *governance.Spec) { s.Disabled = true }),
		hide("_of_y", func(s *governance.Spec) { s.Match.Extensions = []string{"y"} }),
		hide("", func(s *governance.Spec) { s.Match.Callers = []string{"mallory"} }))
	for _, tt := range []struct {
		caller, extension, tool string
		want                    bool
	}{
		{"ada", "x", "ext_x_work", true}, {"ada", "x", "ext_x_secret", false}, {"ada", "x", "ext_x_shadow", true},
		{"ada", "x", "ext_x_off", true}, {"ada", "x", "ext_x_of_y", true}, {"ada", "y", "ext_y_of_y", false},
		{"mallory", "x", "ext_x_work", false},
	} {
		if got := p.Visible(tt.caller, governance.Tool{Extension: tt.extension, Name: tt.tool}); got != tt.want {
			t.Errorf("%s sees %s: %t", tt.caller, tt.tool, got)
		}
	}
}

func TestPipelinesOfBrokenMembers(t *testing.T) {
	for _, m := range []governance.Member{
		{Spec: governance.Spec{Name: "a"}, Policy: always(governance.Decision{})},
		member("a", governance.Audit, nil),
	} {
		func() {
			defer func() {
				if v, _ := recover().(string); !strings.Contains(v, `policy "a" needs`) {
					t.Errorf("panic: %q", v)
				}
			}()
			governance.NewPipeline(governance.Options{}, m)
		}()
	}
}

func TestGlobs(t *testing.T) {
	tests := []struct {
		glob, name string
		want       bool
	}{
		{"*", "", true}, {"*", "a/b/c", true}, {"a*c", "a/b/c", true}, {"a*c", "a/b/cd", false}, {"**a", "ba", true},
		{"", "", true}, {"a", "", false},
		{"?", "ä", true}, {"?", "ab", false}, {"[a-cä]x", "äx", true}, {"[^a]x", "ax", false}, {"[^a]x", "bx", true},
		{`[\]]`, "]", true},
		{`\*`, "*", true}, {`\*`, "a", false}, {"*a*b*c", "xxaxxbxxc", true}, {"*a*b*c", "xxaxxbxx", false},
		{"a*", "A", false}, {"[", "[", false},
		{"ext_*_?", "ext_x_yz_z", true}, {strings.Repeat("*a", 50), strings.Repeat("a", 5000) + "b", false},
	}
	for _, tt := range tests {
		if got := (glob.List{"never", tt.glob}).Match(tt.name); got != tt.want {
			t.Errorf("%q fits %q: %t", tt.glob, tt.name, got)
		}
	}
	if err := (glob.List{"a", "[b", "["}).Check(); err == nil || !strings.Contains(err.Error(), `"[b"`) {
		t.Errorf("Check = %v", err)
	}
	if err := (glob.List{"a*", "[b]"}).Check(); err != nil {
		t.Error(err)
	}
}

// FuzzGlobs compares the matcher with path.Match; the two agree on names without slashes.
func FuzzGlobs(f *testing.F) {
	for _, seed := range [][2]string{{"a*b?[c-e]", "axxbyd"}, {`\**`, "*"}, {"[^ä]*", "öa"}, {"*\xff?", "a\xffb"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if strings.Contains(pattern+name, "/") || (glob.List{pattern}).Check() != nil {
			return
		}
		want, err := path.Match(pattern, name)
		if got := (glob.List{pattern}).Match(name); err == nil && got != want {
			t.Errorf("%q fits %q: %t", pattern, name, got)
		}
	})
}
