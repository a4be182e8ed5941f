package toolcall

import (
	"slices"
	"testing"
)

func TestDiffParams(t *testing.T) {
	before := []Param{{"a", "string", true, nil}, {"b", "integer", false, nil}, {"c", "any", false, nil}}
	now := []Param{{"a", "string", false, nil}, {"c", "any", false, nil}, {"d", "x|y", true, nil}}
	if got, want := DiffParams(before, now), []string{
		"a: string → a?: string",
		"+d: x|y",
		"-b",
	}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
