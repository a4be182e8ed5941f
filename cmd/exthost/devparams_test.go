package main

import (
	"slices"
	"testing"
)

func TestDiffParams(t *testing.T) {
	before := []param{{"a", "string", true}, {"b", "integer", false}, {"c", "any", false}}
	now := []param{{"a", "string", false}, {"c", "any", false}, {"d", "x|y", true}}
	if got, want := diffParams(before, now), []string{"a: string → a?: string", "+d: x|y", "-b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
