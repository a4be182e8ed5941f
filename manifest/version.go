package manifest

import (
	"regexp"
	"strconv"
	"strings"
)

var numbers = regexp.MustCompile(`[0-9]+`)

// SemanticVersion converts the version of another program's package to the form that a manifest requires. If it is not
// semantic, the result is its first three numbers, and 0.0.0 for the hash of a commit.
func SemanticVersion(version string) string {
	if semver.MatchString(version) {
		return version
	}
	parts := []string{"0", "0", "0"}
	if hash := strings.ContainsAny(version, "abcdef") && !strings.Contains(version, "."); !hash {
		for i, word := range numbers.FindAllString(version, 3) {
			if n, err := strconv.Atoi(word); err == nil {
				parts[i] = strconv.Itoa(n)
			}
		}
	}
	return strings.Join(parts, ".")
}
