package config

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/text/strict"
)

// foundReference is a value with references to secrets.
type foundReference struct {
	key    string
	names  []string // names of the secrets
	policy bool     // the value goes to a policy
	wrong  string   // why the reference is refused; "" if it is allowed
}

var (
	// referable are the keys whose values may refer to secrets.
	referable = regexp.MustCompile(
		`^(extensions\.entries\.("[^"]*"|[^."]+)\.env\.` +
			`|destinations\.("[^"]*"|[^."]+)\.(env\.|headers\.|url$|oauth\.client_secret$)|otel\.headers\.)`)
	policyEnv = regexp.MustCompile(`^plugins\[\d+\]\.(mcp\.)?env\.`)
)

// findReferences returns the references in environments, headers and addresses of cfg, in the order of the keys.
// References elsewhere are plain text.
func findReferences(cfg *Config) (found []foundReference) {
	text, err := json.Marshal(cfg)
	var tree any
	if err == nil {
		err = json.Unmarshal(text, &tree)
	}
	if err != nil { // a configuration always encodes
		return nil
	}
	walkStrings("", tree, func(key, text string) {
		f := foundReference{key: key, policy: policyEnv.MatchString(key)}
		switch {
		case key == "server.auth.token" && secrets.Refers(text): // the text would be the token, easy to guess
			f.wrong = "a reference to a secret does not count here; state token_env or token_file"
		case f.policy || referable.MatchString(key):
			var wrong error
			if f.names, wrong = secrets.Names(text); wrong != nil {
				f.wrong = wrong.Error()
			}
		}
		if f.wrong != "" || f.names != nil {
			found = append(found, f)
		}
	})
	return found
}

// walkStrings calls see for every string of a tree.
func walkStrings(at string, v any, see func(key, text string)) {
	switch v := v.(type) {
	case string:
		see(at, v)
	case []any:
		for i := range v {
			walkStrings(strict.Index(at, i), v[i], see)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			walkStrings(strict.Join(at, key), v[key], see)
		}
	}
}

// noteSecrets collects the references to secrets, and reports those that are not allowed.
func (l *loader) noteSecrets() {
	c := l.cfg
	found := findReferences(c)
	for _, id := range slices.Sorted(maps.Keys(c.Extensions.Entries)) {
		for _, text := range c.Extensions.Entries[id].FileEnv {
			names, _ := secrets.Names(text) // malformed references are reported at the extension's start
			key := strict.Join("extensions.entries", id) + ".env_file"
			found = append(found, foundReference{key: key, names: names})
		}
	}
	for _, f := range found {
		project := l.ofProject(f.key)
		if project && f.policy && f.wrong == "" {
			f.wrong = NotOfProject
		}
		if f.wrong != "" {
			pos, _ := l.decoder.Positions.At(f.key)
			l.report.Add(pos, "", "%s: %s", f.key, f.wrong)
		}
		for _, name := range f.names {
			c.SecretUses = append(c.SecretUses, SecretUse{f.key, name, project})
		}
	}
	for name, d := range c.Destinations {
		d.ProjectSecrets = l.ofProject(strict.Join("destinations", name) + ".secrets_file")
		d.Project = l.ofProject(strict.Join("destinations", name) + ".url")
		c.Destinations[name] = d
	}
}

// ofProject reports whether a project's file states the key or one of its parents.
func (l *loader) ofProject(key string) bool {
	pos, _ := l.decoder.Positions.At(key)
	file, err := filepath.Abs(pos.File)
	_, ofProject := l.cfg.Project.Files[file]
	return err == nil && pos.File != "" && ofProject
}
