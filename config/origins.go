package config

import (
	"slices"
	"strings"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/strict"
)

// Origins knows where each value of a loaded [Config] was stated.
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

// File returns the file that states the value of a key, or "".
func (o *Origins) File(key string) string { return o.stated[key].File }

// Place returns where a file states the value of a key, or its closest stated parent; "" if no file does.
func (o *Origins) Place(key string) (file string, line, column int) {
	if o == nil {
		return "", 0, 0
	}
	pos, _ := o.stated.At(key)
	return pos.File, pos.Line, pos.Column
}

// PlaceOfPolicy returns where a file states a policy or, unless it is "", a field of it; "" if no file does.
func (c *Config) PlaceOfPolicy(name, field string) (file string, line, column int) {
	i := slices.IndexFunc(c.Plugins, func(s governance.Spec) bool { return s.Name == name })
	if i < 0 {
		return "", 0, 0
	}
	return c.Origins.Place(strings.TrimSuffix(strict.Index("plugins", i)+"."+field, "."))
}

// Setting is one value of a [Config], as `config show` prints it.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"` // a scalar or a list; secrets are "***" or the ${NAME} that they came from
	Origin string `json:"origin"`
}

// Settings returns all values of c, stated or default, in the order of the schema.
func (c *Config) Settings(o *Origins) []Setting {
	var settings []Setting
	for _, leaf := range strict.Leaves(c, isSecret) {
		if origin := o.Of(leaf.Path); leaf.Value != nil || origin != "default" {
			settings = append(settings, Setting{leaf.Path, c.hidden.tree(leaf.Value), origin})
		}
	}
	return settings
}

// Redacted returns c as a file would state it. Secrets become "***" or the ${NAME} that they came from.
func (c *Config) Redacted() map[string]any {
	return c.hidden.tree(strict.Plain(c, isSecret)).(map[string]any)
}

// Shown replaces the values of secret variables in text by the references of the configuration files.
func (c *Config) Shown(text string) string { return c.hidden.text(text) }
