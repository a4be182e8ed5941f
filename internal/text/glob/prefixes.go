package glob

import "strings"

// Prefixes maps extension ids to the prefix of their registered tool names: ext_notes_ for notes. It has all ids
// of the configuration and the search paths, running or not.
//
// A pattern can fit tools of several extensions: ext_a_b_* fits those of a_b, and a tool b_c of a. A pattern that
// denies selects all these tools. A pattern that allows selects only tools of one extension: the one whose prefix is
// the longest that begins the pattern.
type Prefixes map[string]string

// Literal returns the part of a pattern before its first wildcard.
func Literal(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// Longest returns the longest prefix that begins pattern, or "".
func (p Prefixes) Longest(pattern string) (longest string) {
	literal := Literal(pattern)
	for _, prefix := range p {
		if len(prefix) > len(longest) && strings.HasPrefix(literal, prefix) {
			longest = prefix
		}
	}
	return longest
}

// Mean reports whether patterns with the longest prefix are meant for extension.
func (p Prefixes) Mean(longest, extension string) bool {
	if longest == "" {
		return true
	}
	if own, known := p[extension]; !known || own != longest {
		return false
	}
	// The server b of a and the extension a_b share a prefix. It belongs to the id that it spells, if there is one.
	spelled := strings.TrimSuffix(strings.TrimPrefix(longest, "ext_"), "_")
	return p[spelled] != longest || extension == spelled
}
