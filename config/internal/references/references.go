// Package references finds references to stored secrets in a configuration, and decides which are allowed.
package references

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/text/strict"
)

// Found is a value with references to secrets.
type Found struct {
	Key    string
	Names  []string // of the secrets
	Policy bool     // the value goes to a policy
	Wrong  string   // why the reference is refused; "" if it is allowed
}

var (
	counts = regexp.MustCompile(
		`^(extensions\.entries\.("[^"]*"|[^."]+)\.env\.|destinations\.("[^"]*"|[^."]+)\.(env\.|headers\.|url$|oauth\.client_secret$)|otel\.headers\.)`)
	policy = regexp.MustCompile(`^plugins\[\d+\]\.(mcp\.)?env\.`)
	// Clients would then authenticate with the literal text secret://NAME, which is easy to guess.
	token = "server.auth.token"
)

// Find returns the references in environments, headers and addresses of cfg, in the order of the keys. cfg must
// encode to JSON with the keys of a file. References elsewhere are plain text.
func Find(cfg any) (found []Found) {
	text, err := json.Marshal(cfg)
	var tree any
	if err == nil {
		err = json.Unmarshal(text, &tree)
	}
	if err != nil { // a configuration always encodes
		return nil
	}
	walk("", tree, func(key, text string) {
		f := Found{Key: key, Policy: policy.MatchString(key)}
		switch {
		case key == token && secrets.Refers(text):
			f.Wrong = "a reference to a secret does not count here; state token_env or token_file"
		case f.Policy || counts.MatchString(key):
			var wrong error
			if f.Names, wrong = secrets.Names(text); wrong != nil {
				f.Wrong = wrong.Error()
			}
		}
		if f.Wrong != "" || f.Names != nil {
			found = append(found, f)
		}
	})
	return found
}

// walk calls see for every string of a tree.
func walk(at string, v any, see func(key, text string)) {
	switch v := v.(type) {
	case string:
		see(at, v)
	case []any:
		for i := range v {
			walk(strict.Index(at, i), v[i], see)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			walk(strict.Join(at, key), v[key], see)
		}
	}
}
