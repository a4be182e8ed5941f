package faults

import (
	"fmt"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		rule Rule
		want string // of the message; "" for none
	}{
		{Rule{Tool: "ext_git_*", Crash: 0.1, Slow: 1}, ""}, {Rule{Tool: "*", Hang: 1}, ""},
		{Rule{Tool: "*", Slow: 1}, ""},
		{Rule{Tool: "*", Crash: 0.1, Hang: 0.2, Garbage: 0.3, Huge: 0.3, Noise: 0.1}, ""},
		{Rule{Tool: "", Crash: 1}, "is no pattern"}, {Rule{Tool: "ext_[", Crash: 1}, "is no pattern"},
		{Rule{Tool: "*"}, "has no effect"}, {Rule{Tool: "*", Seed: 7}, "has no effect"},
		{Rule{Tool: "*", Crash: 0.6, Noise: 0.6}, "add up to 1.2"},
	} {
		got := fmt.Sprint(Check([]Rule{c.rule}))
		if c.want == "" && got != "[]" || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c.rule, got)
		}
	}
	for _, text := range []string{"NaN", "-0.1", "1.1", "Inf", "x", ""} {
		if new(Share).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is a probability", text)
		}
	}
}

// TestDraws checks that the first matching rule applies, that each tool has draws of its own, and that a reload that
// changes no rule does not restart the draws.
func TestDraws(t *testing.T) {
	rules := []Rule{{Tool: "ext_a_*", Crash: 1}, {Tool: "*", Garbage: 0.5}}
	i := New(rules, nil)
	if f := i.Next("ext_a_x"); f.Kind != Crash || f.Key != "inject[0]" {
		t.Errorf("%+v", f)
	}
	draw := func(i *Injector, n int) (kinds string) {
		for range n {
			kinds += string(i.Next("ext_b_x").Kind) + " "
		}
		return kinds
	}
	whole := draw(New(rules, nil), 100)
	first := draw(i, 50)
	if again := New([]Rule{rules[0], rules[1]}, i); again != i || first+draw(again, 50) != whole {
		t.Error("a reload begins anew")
	}
	if New(rules[1:], i) == i {
		t.Error("other rules are not in force")
	}
	var none *Injector
	if New(nil, i) != nil || none.Next("ext_a_x") != (Fault{}) {
		t.Error("calls fail without a rule")
	}
}

// TestDrawsAreBounded calls more tools than are counted, since clients of a destination choose the names.
func TestDrawsAreBounded(t *testing.T) {
	i := New([]Rule{{Tool: "*", Crash: 1}}, nil)
	for n := range maxDrawn + 100 {
		i.Next(fmt.Sprint(n))
	}
	if len(i.drawn) > maxDrawn+1 {
		t.Errorf("%d names are kept", len(i.drawn))
	}
}
