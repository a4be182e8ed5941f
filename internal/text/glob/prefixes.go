package glob

import "strings"

// Prefixes are what the registered names of each extension's tools begin with, by id:
// ext_notes_ for notes. The ids are those that the configuration and the search paths have,
// whether or not they run.
//
// A pattern of registered names can fit tools of several extensions: ext_a_b_* those of a_b,
// and a tool b_c of a. A pattern that denies selects all of them. One that allows selects
// those of one extension, if the pattern begins with a prefix: of the one with the longest.
type Prefixes map[string]string

// Literal returns the text of a pattern before its first wildcard.
func Literal(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// Longest returns the longest prefix that a pattern begins with, "" when it begins with none.
func (p Prefixes) Longest(pattern string) (longest string) {
	literal := Literal(pattern)
	for _, prefix := range p {
		if len(prefix) > len(longest) && strings.HasPrefix(literal, prefix) {
			longest = prefix
		}
	}
	return longest
}

// Mean reports whether patterns with this longest prefix are meant for the extension.
func (p Prefixes) Mean(longest, extension string) bool {
	if longest == "" {
		return true
	}
	if own, known := p[extension]; !known || own != longest {
		return false
	}
	// The server b of a and the extension a_b share a prefix: the one whose id it spells counts.
	spelled := strings.TrimSuffix(strings.TrimPrefix(longest, "ext_"), "_")
	return p[spelled] != longest || extension == spelled
}
