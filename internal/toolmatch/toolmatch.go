// Package toolmatch reads the patterns by which hooks choose tools.
package toolmatch

import (
	"regexp"
	"slices"
	"strings"
)

// Pattern chooses names. The zero Pattern chooses all of them.
type Pattern struct {
	names []string       // any of these, exactly
	globs *regexp.Regexp // or what this describes as a whole
	re    *regexp.Regexp // or what holds a match of this
}

// plain are the characters of a list of names, with and without wildcards.
var (
	list  = regexp.MustCompile(`^[A-Za-z0-9_\-,| ]+$`)
	globs = regexp.MustCompile(`^[A-Za-z0-9_\-,| *?]+$`)
)

// Parse reads a pattern as the matchers of Claude Code's hooks are read: "" and
// "*" are every name; names parted by "|" or "," are these; anything else is a
// regular expression (RE2), which need not match the whole name. Beyond that,
// where * and ? are all that is special they also count as in a shell, so that
// ext_notes_* and *_delete mean what they look like: a name that either reading
// chooses is chosen.
func Parse(pattern string) (Pattern, error) {
	var p Pattern
	switch {
	case pattern == "" || pattern == "*":
		return p, nil
	case list.MatchString(pattern):
		p.names = alternatives(pattern)
		return p, nil
	case globs.MatchString(pattern):
		p.globs = regexp.MustCompile(globText(alternatives(pattern)))
		p.re, _ = regexp.Compile(pattern) // *_delete is none
		return p, nil
	}
	var err error
	p.re, err = regexp.Compile(pattern)
	return p, err
}

func alternatives(pattern string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(pattern, func(r rune) bool { return r == '|' || r == ',' || r == ' ' }),
		func(s string) bool { return s == "" })
}

// globText is the regular expression of shell patterns.
func globText(patterns []string) string {
	for i, p := range patterns {
		patterns[i] = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(p))
	}
	return `^(?:` + strings.Join(patterns, "|") + `)$`
}

// Match reports whether p chooses any of the names, of which one thing may have
// several.
func (p Pattern) Match(names ...string) bool {
	if p.names == nil && p.globs == nil && p.re == nil {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.Contains(p.names, name) ||
			p.globs != nil && p.globs.MatchString(name) ||
			p.re != nil && p.re.MatchString(name)
	})
}
