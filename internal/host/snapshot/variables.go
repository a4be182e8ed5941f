package snapshot

import (
	"maps"
	"regexp"
	"slices"

	"github.com/exthost/exthost/manifest"
)

// reference matches the beginning of ${NAME} and ${NAME:-default}.
var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)`)

// stated returns the names of the environment variables that m requires or that its transport refers to.
func stated(m *manifest.Manifest) []string {
	t := m.Transport
	names := slices.Clone(m.Requires.Env)
	if t.TokenEnv != "" {
		names = append(names, t.TokenEnv)
	}
	for _, text := range slices.Concat([]string{t.Command, t.Cwd, t.URL}, t.Args, t.Cmd,
		slices.Collect(maps.Values(t.Env)), slices.Collect(maps.Values(t.Headers))) {
		for _, match := range reference.FindAllStringSubmatch(text, -1) {
			names = append(names, match[1])
		}
	}
	return names
}
