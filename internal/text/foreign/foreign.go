// Package foreign translates configurations of other programs: it lists their settings that have no effect here with
// what replaces them, and rewrites their notations. docs/coming-from.md maps every key.
package foreign

import (
	"regexp"
	"strings"
)

// noEffect maps the paths of keys to their replacements. * is the id of an extension.
var noEffect = map[string]string{
	"plugin_dirs":     "Python classes do not run here",
	"plugin_settings": "plugins[].timeout and plugins[].required say it for each policy",
	"schema_version":  "",
	"extensions.transport_defaults": "extensions.defaults has the timeouts; subject_prefix is stated in " +
		"each manifest",
	"extensions.doctor":                        "extensions.defaults has the timeouts",
	"extensions.entries.*.capabilities_grant":  "policies decide what an extension may do",
	"extensions.entries.*.allow_external_bind": "extensions do not listen here",
}

// Depth is the maximum length of a path in noEffect.
const Depth = 4

// NoEffect reports whether the key at path is known to have no effect, and its replacement, "" if there is none.
func NoEffect(path ...string) (instead string, known bool) {
	joined := strings.Join(path, ".")
	if len(path) == Depth {
		joined = strings.Join([]string{path[0], path[1], "*", path[3]}, ".")
	}
	instead, known = noEffect[joined]
	return instead, known
}

// className matches the kind of a plugin that is a Python class.
var className = regexp.MustCompile(`^([A-Za-z_]\w*\.)+[A-Za-z_]\w*$`)

// builtins are the built-in policies that replace Python plugins, by a part of the class name.
var builtins = []struct{ class, policy string }{
	{"pii", "redact"}, {"secret", "redact"}, {"ratelimit", "rate_limit"}, {"schemaguard", "schema"},
	{"outputlength", "size_cap"},
	{"denylist", "access"}, {"allowlist", "access"}, {"opa", "cel"}, {"cedar", "cel"}, {"policy", "cel"},
}

// PythonClass reports whether a plugin's kind is a Python class, which runs only inside ContextForge, and what
// replaces it.
func PythonClass(kind string) (instead string, is bool) {
	if kind != "isolated_venv" && !className.MatchString(kind) {
		return "", false
	}
	class := strings.ToLower(strings.ReplaceAll(kind, "_", ""))
	for _, b := range builtins {
		if strings.Contains(class, b.class) {
			instead = "the built-in policy " + b.policy + " does that; or "
			break
		}
	}
	return instead + "run it as a plugin server: kind external with an mcp block", true
}
