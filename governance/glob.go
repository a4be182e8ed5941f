package governance

import (
	"slices"

	"github.com/exthost/exthost/internal/glob"
)

// Globs are patterns of which one has to fit: * is any text, slashes included, ?
// one character, [a-z] one of several, and \ takes the next character literally.
type Globs []string

// Match reports whether one of the patterns fits all of name. A malformed pattern
// fits nothing.
func (g Globs) Match(name string) bool {
	return slices.ContainsFunc(g, func(pattern string) bool { return glob.Match(pattern, name) })
}

// Check names the first pattern that is malformed.
func (g Globs) Check() error {
	for _, pattern := range g {
		if err := glob.Check(pattern); err != nil {
			return err
		}
	}
	return nil
}
