package governance

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Globs are patterns of which one has to fit: * is any text, slashes included, ?
// one character, [a-z] one of several, and \ takes what follows literally.
type Globs []string

// Match reports whether one of the patterns fits all of name. A malformed pattern
// fits nothing.
func (g Globs) Match(name string) bool {
	return slices.ContainsFunc(g, func(pattern string) bool { return globMatch(pattern, name) })
}

// Check names the first pattern that is malformed.
func (g Globs) Check() error {
	if i := slices.IndexFunc(g, badGlob); i >= 0 {
		return fmt.Errorf("%q is not a glob: * is any text, ? any character, [a-z] one of them", g[i])
	}
	return nil
}

func badGlob(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err != nil || pattern == ""
}

// globMatch goes back only to the last star, so it takes at most
// len(pattern)*len(name) steps.
func globMatch(pattern, name string) bool {
	star, resume := -1, 0 // where the last * is, and where in name what follows it was tried last
	p, n := 0, 0
	for n < len(name) {
		if p < len(pattern) && pattern[p] == '*' {
			star, resume = p, n
			p++
			continue
		}
		if dp, dn := matchOne(pattern[p:], name[n:]); dp > 0 {
			p, n = p+dp, n+dn
			continue
		}
		if star < 0 {
			return false
		}
		_, size := utf8.DecodeRuneInString(name[resume:])
		resume += size
		p, n = star+1, resume
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchOne holds the first character of name against the first element of pattern
// and returns the length of both, 0 when they differ.
func matchOne(pattern, name string) (dp, dn int) {
	if pattern == "" {
		return 0, 0
	}
	_, size := utf8.DecodeRuneInString(name)
	switch pattern[0] {
	case '?':
		return 1, size
	case '[':
		end := classEnd(pattern)
		if ok, err := path.Match(pattern[:end], name[:size]); ok && err == nil {
			return end, size
		}
		return 0, 0
	case '\\':
		if len(pattern) > 1 && pattern[1] == name[0] {
			return 2, 1
		}
		return 0, 0
	}
	if pattern[0] == name[0] {
		return 1, 1
	}
	return 0, 0
}

// classEnd returns the length of the [class] that pattern begins with.
func classEnd(pattern string) int {
	for i := 1; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case ']':
			return i + 1
		}
	}
	return len(pattern)
}
