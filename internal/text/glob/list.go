package glob

import "slices"

// List is a list of patterns of which one has to fit, see [Match].
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
