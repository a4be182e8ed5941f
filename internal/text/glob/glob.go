// Package glob matches names against patterns with wildcards.
package glob

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Match reports whether pattern fits the whole name: * is any text, slashes included, ? one character, [a-z] one
// of several, and \ takes the next character literally. A malformed pattern fits nothing.
//
// It backtracks only to the last star, so it takes at most len(pattern)*len(name) steps.
func Match(pattern, name string) bool {
	star, resume := -1, 0 // index of the last *, and where in name the text after it was last tried
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

// Check returns why pattern is empty or malformed.
func Check(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return fmt.Errorf("%q is not a glob: * is any text, ? any character, [a-z] one of them", pattern)
	}
	return nil
}

// matchOne matches the first element of pattern with the first character of name and returns the lengths of both,
// 0 if they differ.
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

// classEnd returns the length of the [class] at the start of pattern.
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

// List is a list of patterns; one of them has to fit, see [Match].
type List []string

// Match reports whether one of the patterns fits the whole name.
func (l List) Match(name string) bool {
	return slices.ContainsFunc(l, func(pattern string) bool { return Match(pattern, name) })
}

// Check returns an error for the first malformed pattern.
func (l List) Check() error {
	for _, pattern := range l {
		if err := Check(pattern); err != nil {
			return err
		}
	}
	return nil
}
