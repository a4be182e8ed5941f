package builtin

import "strings"

// Prefixes are what the registered names of each extension's tools begin with, by id:
// ext_notes_ for notes. The ids are those that the configuration and the search paths have,
// whether or not they run.
//
// A pattern of registered names can fit tools of several extensions: ext_a_b_* those of a_b,
// and a tool b_c of a. A rule that denies selects all of them. A rule that allows selects
// those of one extension, if the pattern begins with a prefix: of the one with the longest.
type Prefixes map[string]string

// Namer is a policy that wants to know the extensions. Name is called with all of them
// whenever they may have changed.
type Namer interface {
	Name(Prefixes)
}

// longest returns the longest prefix that a pattern begins with, "" when it begins with none.
func (p Prefixes) longest(pattern string) (longest string) {
	literal := pattern
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		literal = pattern[:i]
	}
	for _, prefix := range p {
		if len(prefix) > len(longest) && strings.HasPrefix(literal, prefix) {
			longest = prefix
		}
	}
	return longest
}

// mean reports whether patterns with this longest prefix are meant for the extension.
func (p Prefixes) mean(longest, extension string) bool {
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
