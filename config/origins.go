package config

import (
	"regexp"
	"strings"

	"github.com/exthost/exthost/internal/strict"
)

// Origins says where each value of a loaded [Config] came from.
type Origins struct {
	stated strict.Positions
}

// Of returns where the value of a key, such as server.listen, was stated:
// "file:line", "flag --listen", "env EXTHOST_SERVER_LISTEN", or "default".
func (o *Origins) Of(key string) string {
	if pos, ok := o.stated[key]; ok {
		return pos.String()
	}
	return "default"
}

// Setting is one value of a [Config] as `config show` prints it.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"` // a scalar or a list; secrets are "***" or the ${NAME} that they came from
	Origin string `json:"origin"`
}

// Settings returns every value of c that is stated or has a default, in the
// order of the schema.
func (c *Config) Settings(o *Origins) []Setting {
	var settings []Setting
	for _, leaf := range strict.Leaves(c, secret) {
		if origin := o.Of(leaf.Path); leaf.Value != nil || origin != "default" {
			settings = append(settings, Setting{leaf.Path, c.hidden.Tree(leaf.Value), origin})
		}
	}
	return settings
}

// Redacted returns c as a file would state it, with every secret replaced by "***", or by
// the reference to the variable that it came from.
func (c *Config) Redacted() map[string]any {
	return c.hidden.Tree(strict.Plain(c, secret)).(map[string]any)
}

var (
	secretKey = regexp.MustCompile(`(?i)((^|[_-])(token|key|secret|passwd|pwd|credentials?|pat|auth|api_?key|bearer|session|authorization|cookie)$|password|secret|credential|private_key)`)
	// secretValue matches tokens of known issuers, PEM keys and URLs with a password.
	secretValue = regexp.MustCompile(`(?i)\b(sk-|sk_live_|gh[pousr]_|github_pat_|xox[abeprs]-|glpat-|npm_|AKIA|ASIA|AIza)[A-Za-z0-9_-]{8,}|\beyJ[A-Za-z0-9_-]{10,}\.|\bbearer +\S{8,}|-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s:@]*:[^/\s@]+@`)
)

// secret reports whether a value must be masked.
func secret(key, value string) bool {
	return secretKey.MatchString(key) || secretValue.MatchString(value) && !strings.HasPrefix(value, "${")
}
