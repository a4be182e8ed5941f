package glob

import (
	"regexp"
	"slices"
	"strings"
)

// Matcher selects names. The zero Matcher selects all.
type Matcher struct {
	names []string       // selects equal names
	globs []string       // or names that match one of these
	re    *regexp.Regexp // or names that contain a match
}

// Matches lists of names, without and with wildcards.
var (
	nameList = regexp.MustCompile(`^[A-Za-z0-9_\-,| ]+$`)
	globList = regexp.MustCompile(`^[A-Za-z0-9_\-,| *?]+$`)
)

// ParseMatcher reads a pattern as Claude Code reads the matchers of hooks: "" and "*" select every name, names
// separated by "|" or "," select themselves, anything else is a regular expression (RE2) that may match a part of
// the name. In addition, a pattern whose only special characters are * and ? also works as a glob, so that
// ext_notes_* and *_delete select what one expects.
func ParseMatcher(pattern string) (Matcher, error) {
	switch {
	case pattern == "" || pattern == "*":
		return Matcher{}, nil
	case nameList.MatchString(pattern):
		return Matcher{names: alternatives(pattern)}, nil
	case globList.MatchString(pattern):
		re, _ := regexp.Compile(pattern) // *_delete does not compile
		return Matcher{globs: alternatives(pattern), re: re}, nil
	}
	re, err := regexp.Compile(pattern)
	return Matcher{re: re}, err
}

// alternatives returns the names of a list. It is not nil for an empty list such as "|", which selects nothing.
func alternatives(pattern string) []string {
	return strings.FieldsFunc(pattern, func(r rune) bool { return r == '|' || r == ',' || r == ' ' })
}

// Names returns the names of a list without wildcards; nil if the pattern is none.
func (m Matcher) Names() []string { return m.names }

// Match reports whether m selects any of the names of one thing.
func (m Matcher) Match(names ...string) bool {
	if m.names == nil && m.globs == nil && m.re == nil {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.Contains(m.names, name) ||
			slices.ContainsFunc(m.globs, func(glob string) bool { return Match(glob, name) }) ||
			m.re != nil && m.re.MatchString(name)
	})
}
