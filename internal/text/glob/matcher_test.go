package glob

import (
	"strings"
	"testing"
)

func TestMatcher(t *testing.T) {
	const tool = "ext_notes_add mcp__notes__add" // names of one tool
	for _, tt := range []struct {
		pattern string
		names   string
		want    bool
	}{
		{"", tool, true},
		{"*", tool, true},
		{"ext_notes_add", tool, true},
		{"mcp__notes__add", tool, true},
		{"mcp__notes", tool, false}, // a name, but not a tool's
		{"notes", tool, false},
		{"Edit|Write", "Write", true},
		{"Edit|Write", "NotebookEdit", false},
		{"Edit, Write", "Write", true},
		{"read-file|write-file", "write-file", true},
		{"mcp__notes__.*", tool, true},
		{"mcp__.*__add.*", tool, true},
		{"Notebook.*", "NotebookEdit", true},
		{"^Notebook", "MyNotebook", false},
		{"notes", "ext_notes_add", false},
		{"notes.", tool, true}, // a regular expression may match a part of a name
		{"ext_notes_*", tool, true},
		{"ext_notes_*", "ext_mail_send", false},
		{"*_delete", "ext_files_delete", true},
		{"*_delete", "ext_files_deleted", false},
		{"ext_?_x", "ext_a_x", true},
		{"ext_*_get|*_delete", "ext_a_delete", true},
		{"notes*", tool, true}, // as Claude Code reads it
		{"|", "Edit", false},
	} {
		p, err := ParseMatcher(tt.pattern)
		if got := p.Match(strings.Fields(tt.names)...); err != nil || got != tt.want {
			t.Errorf("%q matches %q: %t, %v", tt.pattern, tt.names, got, err)
		}
	}
}

func TestBadMatcher(t *testing.T) {
	for _, pattern := range []string{"(", "[a", "x\\", "a**b)"} {
		if _, err := ParseMatcher(pattern); err == nil {
			t.Errorf("%q is a pattern", pattern)
		}
	}
}

// Parsing never panics, and what the plain regular expression selects is selected.
func FuzzParseMatcher(f *testing.F) {
	for _, s := range []string{"", "*", "a|b", "ext_*", "a?b*", ".*", "*_x", "||,"} {
		f.Add(s, "ext_a")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		p, err := ParseMatcher(pattern)
		if err == nil && p.re != nil && p.re.MatchString(name) && !p.Match(name) {
			t.Errorf("%q does not match %q", pattern, name)
		}
	})
}
