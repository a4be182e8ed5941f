package glob

import (
	"regexp"
	"slices"
	"strings"
)

// Matcher selects names. The zero Matcher selects all of them.
type Matcher struct {
	names []string       // any of these, exactly
	globs []string       // or that one of these fits
	re    *regexp.Regexp // or that contain a match of this
}

// The characters of a list of names, without and with wildcards.
var (
	nameList = regexp.MustCompile(`^[A-Za-z0-9_\-,| ]+$`)
	globList = regexp.MustCompile(`^[A-Za-z0-9_\-,| *?]+$`)
)

// ParseMatcher reads a pattern as the matchers of Claude Code's hooks are read: ""
// and "*" are every name; names parted by "|" or "," are these; anything else is a
// regular expression (RE2), which need not match the whole name. In addition, a
// pattern whose only special characters are * and ? also selects as a glob, so
// that ext_notes_* and *_delete mean what they look like.
func ParseMatcher(pattern string) (Matcher, error) {
	switch {
	case pattern == "" || pattern == "*":
		return Matcher{}, nil
	case nameList.MatchString(pattern):
		return Matcher{names: alternatives(pattern)}, nil
	case globList.MatchString(pattern):
		re, _ := regexp.Compile(pattern) // *_delete is none
		return Matcher{globs: alternatives(pattern), re: re}, nil
	}
	re, err := regexp.Compile(pattern)
	return Matcher{re: re}, err
}

// alternatives returns the names of a list. It is not nil for a list without any,
// such as "|", which selects nothing.
func alternatives(pattern string) []string {
	return strings.FieldsFunc(pattern, func(r rune) bool { return r == '|' || r == ',' || r == ' ' })
}

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
