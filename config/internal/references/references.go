// Package references finds the references to stored secrets in a configuration, and says where
// they count.
package references

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/text/strict"
)

// Found is a text of a configuration that refers to secrets.
type Found struct {
	Key    string
	Names  []string // of the secrets
	Policy bool     // a policy is given them
	Wrong  string   // why it does not count; "": it does
}

var (
	counts = regexp.MustCompile(
		`^(extensions\.entries\.("[^"]*"|[^."]+)\.env\.|destinations\.("[^"]*"|[^."]+)\.(env\.|headers\.|url$|oauth\.client_secret$)|otel\.headers\.)`)
	policy = regexp.MustCompile(`^plugins\[\d+\]\.(mcp\.)?env\.`)
	// token would be one that everybody can guess.
	token = "server.auth.token"
)

// Find returns the references in the environments, headers and addresses of cfg, which encodes
// as JSON with the keys of a file, in the order of the keys. Other texts stay as they are.
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

// walk calls see for every text of a tree.
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
