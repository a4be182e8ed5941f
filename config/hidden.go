package config

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/secret/secrets"
)

// minHidden is the minimum length of hidden values: shorter ones occur by chance.
const minHidden = 4

// hiddenValues replaces values of secret variables by the references of the files. The zero value replaces nothing.
type hiddenValues struct{ replacer *strings.Replacer }

// hide hides the secrets among variables, by name.
func hide(variables map[string]string) hiddenValues {
	type pair struct{ value, reference string }
	var pairs []pair
	for name, value := range variables {
		if len(value) < minHidden || !isSecret(name, value) {
			continue
		}
		reference := "${" + name + "}"
		pairs = append(pairs, pair{value, reference})
		if quoted := strconv.Quote(value); quoted[1:len(quoted)-1] != value { // an error may quote the value
			pairs = append(pairs, pair{quoted[1 : len(quoted)-1], reference})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { // longest first: one value may be part of another
		return cmp.Or(len(b.value)-len(a.value), cmp.Compare(a.reference, b.reference))
	})
	var list []string
	for _, p := range pairs {
		list = append(list, p.value, p.reference)
	}
	return hiddenValues{strings.NewReplacer(list...)}
}

// text replaces the values in s.
func (h hiddenValues) text(s string) string {
	if h.replacer == nil {
		return s
	}
	return h.replacer.Replace(s)
}

// tree replaces the values in a tree of scalars, lists and maps.
func (h hiddenValues) tree(v any) any {
	switch v := v.(type) {
	case string:
		return h.text(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = h.tree(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key := range v {
			out[key] = h.tree(v[key])
		}
		return out
	}
	return v
}

var (
	// bareReference matches a value that contains a secret only by name.
	bareReference = regexp.MustCompile(`^((?i:bearer|basic|token) )?` + secrets.Scheme + `[A-Za-z0-9._-]+$`)
	secretKey     = regexp.MustCompile(
		`(?i)((^|[_-])(token|key|secret|passwd|pwd|credentials?|pat` +
			`|auth|api_?key|bearer|session|authorization|cookie)$|password|secret|credential|private_key)`)
	// secretValue matches tokens of known issuers, PEM keys and URLs with a password.
	secretValue = regexp.MustCompile(
		`(?i)\b(sk-|sk_live_|gh[pousr]_|github_pat_|xox[abeprs]-|glpat-|npm_|AKIA|ASIA|AIza)` +
			`[A-Za-z0-9_-]{8,}|\beyJ[A-Za-z0-9_-]{10,}\.|\bbearer +\S{8,}` +
			`|-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s:@]*:[^/\s@]+@`)
)

// isSecret reports whether the value of a key must be masked.
func isSecret(key, value string) bool {
	if bareReference.MatchString(value) {
		return false
	}
	return secretKey.MatchString(key) || secretValue.MatchString(value) && !strings.HasPrefix(value, "${")
}
