package process

import (
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
)

// EnvPolicy selects which of the host's variables a child receives.
type EnvPolicy struct {
	// Mode is "filter", the default: all variables except those that look like secrets; or "allowlist": a short list of
	// harmless names, Pass and Declared.
	Mode string
	// Pass are names that the operator allows even if they look like secrets.
	Pass []string
	// Declared are names that the extension requires. They are treated like Pass.
	Declared []string
	// Deny are names that the operator withholds, even if they are in Pass or Declared.
	Deny []string
	// Set are variables that replace the host's and are not filtered.
	Set map[string]string
}

// EnvReport lists the names, sorted, that Environ treated specially. It contains neither values nor names of
// EnvPolicy.Set.
type EnvReport struct {
	// Withheld are the names that the child does not receive.
	Withheld []string
	// PassedSecrets are secret-like names that the child receives due to Pass or Declared.
	PassedSecrets []string
}

// Environ returns the environment of a child, sorted by name, and a report about the variables of
// host. If host has a name several times, the last one is used.
//
// Variables that make programs load foreign code (LD_*, DYLD_*, NODE_OPTIONS, …) are always withheld. Secrets are
// withheld unless Pass or Declared names them: variables whose name looks secret, whose value looks like a token of a
// known issuer or a URL with a password, or that give access to the user's secrets, such as SSH_AUTH_SOCK.
func Environ(host []string, p EnvPolicy) (env []string, report EnvReport) {
	vars := parseEnv(host)
	asked := names(p.Pass, p.Declared)
	denied := names(p.Deny)
	set := names(slices.Collect(maps.Keys(p.Set)))
	for key, v := range vars {
		if set[key] {
			delete(vars, key)
			continue
		}
		secret := Withholds(v.name(), v.value())
		pass := !codeInjection.MatchString(v.name()) && !denied[key] &&
			(asked[key] || !secret && (p.Mode != "allowlist" || harmlessNames.MatchString(v.name())))
		switch {
		case !pass:
			delete(vars, key)
			report.Withheld = append(report.Withheld, v.name())
		case secret:
			report.PassedSecrets = append(report.PassedSecrets, v.name())
		}
	}
	env = make([]string, 0, len(vars)+len(p.Set)) // allocated exactly, as it is kept for each child
	for _, v := range vars {
		env = append(env, v.kv) // not copied: the environments of many children share the string
	}
	for name, value := range p.Set {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	slices.Sort(report.Withheld)
	slices.Sort(report.PassedSecrets)
	return env, report
}

// Distinct returns env, sorted, with only the last value of each name.
func Distinct(env []string) (out []string) {
	for _, v := range parseEnv(env) {
		out = append(out, v.kv)
	}
	slices.Sort(out)
	return out
}

// Lookup returns a function that looks up variables of env, for [Expand] and [Resolve].
func Lookup(env []string) func(name string) (value string, ok bool) {
	vars := parseEnv(env)
	return func(name string) (string, bool) {
		v, ok := vars[envKey(name)]
		if !ok {
			return "", false
		}
		return v.value(), true
	}
}

// envVar is one NAME=value, with the length of the name.
type envVar struct {
	kv  string
	end int
}

func (v envVar) name() string  { return v.kv[:v.end] }
func (v envVar) value() string { return v.kv[v.end+1:] }

func parseEnv(env []string) map[string]envVar {
	vars := make(map[string]envVar, len(env))
	for _, kv := range env {
		// On Windows a name can start with "=".
		if i := strings.Index(kv[min(1, len(kv)):], "="); i >= 0 {
			v := envVar{kv, i + 1}
			vars[envKey(v.name())] = v
		}
	}
	return vars
}

// envKey normalises a variable's name: case does not matter on Windows.
func envKey(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}
	return name
}

// SameVariable reports whether the system takes both names for one variable.
func SameVariable(a, b string) bool { return envKey(a) == envKey(b) }

func names(lists ...[]string) map[string]bool {
	set := make(map[string]bool)
	for _, name := range slices.Concat(lists...) {
		set[envKey(name)] = true
	}
	return set
}

var varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Expand replaces ${VAR} by the result of lookup, ${VAR:-default} by default if VAR is missing or empty, and $${ by ${.
// All other text, including $VAR, stays unchanged. The error names all missing variables, or the malformed reference.
func Expand(s string, lookup func(name string) (string, bool)) (string, error) {
	var b strings.Builder
	var missing []string
	for rest := s; ; {
		before, after, ok := strings.Cut(rest, "${")
		if literal, escaped := strings.CutSuffix(before, "$"); ok && escaped {
			b.WriteString(literal + "${")
			rest = after
			continue
		}
		b.WriteString(before)
		if !ok {
			break
		}
		ref, after, ok := strings.Cut(after, "}")
		name, fallback, hasFallback := strings.Cut(ref, ":-")
		if !ok || !varName.MatchString(name) {
			return "", fmt.Errorf("malformed reference ${%s: write ${NAME} or ${NAME:-default}, or $${ for a plain ${",
				display.Escape(ref))
		}
		value, found := lookup(name)
		switch {
		case hasFallback && value == "":
			value = fallback
		case !found:
			missing = append(missing, name)
		}
		b.WriteString(value)
		rest = after
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("not set, or withheld from extensions: %s; set and declare it, or write ${NAME:-default}",
			strings.Join(missing, ", "))
	}
	return b.String(), nil
}
