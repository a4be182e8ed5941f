package glob

import "slices"

// List is a list of patterns, of which one has to fit: * is any text, slashes included, ?
// one character, [a-z] one of several, and \ takes the next character literally.
type List []string

// Match reports whether one of the patterns fits all of name. A malformed pattern
// fits nothing.
func (l List) Match(name string) bool {
	return slices.ContainsFunc(l, func(pattern string) bool { return Match(pattern, name) })
}

// Check names the first pattern that is malformed.
func (l List) Check() error {
	for _, pattern := range l {
		if err := Check(pattern); err != nil {
			return err
		}
	}
	return nil
}
