package config

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
)

// Rules do not depend on the order of keys, and DiffRules shows what changed.
func TestRulesIgnoreTheLayoutOfFiles(t *testing.T) {
	access := func(name string, tools ...any) *Config {
		c := Default()
		c.Plugins = []governance.Spec{{Name: name, Builtin: "access", Config: map[string]any{
			"rules": []any{map[string]any{"tools": tools, "effect": "deny"}, map[string]any{"effect": "allow"}},
		}}}
		return c
	}
	before, after := access("access", "a<b"), access("access", "b")
	want := []string{
		`- policy access: config.rules: {"effect":"deny","tools":["a<b"]}`,
		`+ policy access: config.rules: {"effect":"deny","tools":["b"]}`,
	}
	if diff := cmp.Diff(want, DiffRules(before.Rules(), after.Rules())); diff != "" {
		t.Error(diff)
	}
	if d := DiffRules(before.Rules(), access("access", "a<b").Rules()); d != nil {
		t.Errorf("the same: %q", d)
	}
	for name, test := range map[string]struct{ before, after, want []string }{
		"nothing":  {nil, nil, nil},
		"new":      {nil, []string{"a"}, []string{"+ a"}},
		"gone":     {[]string{"a", "b"}, []string{"b"}, []string{"- a"}},
		"moved":    {[]string{"a", "b", "c"}, []string{"b", "c", "a"}, []string{"- a", "+ a"}},
		"replaced": {[]string{"a", "x", "c"}, []string{"a", "y", "c"}, []string{"- x", "+ y"}},
	} {
		if diff := cmp.Diff(test.want, DiffRules(test.before, test.after)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	var long, other []string
	for n := range 3 * maxCompared {
		long, other = append(long, fmt.Sprint("a", n)), append(other, fmt.Sprint("b", n))
	}
	if n := len(DiffRules(long, other)); n != 6*maxCompared {
		t.Errorf("%d lines", n)
	}
}
