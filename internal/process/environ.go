package process

import (
	"maps"
	"runtime"
	"slices"
	"strings"
)

// EnvPolicy says which of the host's variables a child receives.
type EnvPolicy struct {
	// Mode is "filter" (the default: everything but what looks like a secret) or
	// "allowlist" (a short list of harmless names, and Pass and Declared).
	Mode string
	// Pass are names that the operator lets through, secret-like or not.
	Pass []string
	// Declared are names that the extension requires; declaring is asking for them.
	Declared []string
	// Deny are names that the operator takes back from Pass and Declared.
	Deny []string
	// Set is laid over what the host gives; it is neither filtered nor denied.
	Set map[string]string
}

// EnvReport names, sorted, what was done with the host's variables. It never
// holds a value. A name that EnvPolicy.Set replaces is in neither list.
type EnvReport struct {
	// Withheld are the names the child does not receive.
	Withheld []string
	// PassedSecrets are secret-like names it does, because they were asked for.
	PassedSecrets []string
}

// Environ returns the environment of a child, sorted by name and without
// duplicates (the last one counts), and reports what it withheld from host.
//
// What makes programs load foreign code (LD_*, DYLD_*, NODE_OPTIONS, …) is
// withheld whatever the policy says. So is, unless Pass or Declared name it,
// what looks like a secret by its name or is a URL with a password in it.
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
		secret := secretName(v.name()) || passwordURL(v.value())
		pass := !injectsCode(v.name()) && !denied[key] &&
			(asked[key] || !secret && (p.Mode != "allowlist" || harmless(v.name())))
		switch {
		case !pass:
			delete(vars, key)
			report.Withheld = append(report.Withheld, v.name())
		case secret:
			report.PassedSecrets = append(report.PassedSecrets, v.name())
		}
	}
	for _, v := range vars {
		env = append(env, v.kv) // as it is: the environments of many children share it
	}
	for name, value := range p.Set {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	slices.Sort(report.Withheld)
	slices.Sort(report.PassedSecrets)
	return env, report
}

// Lookup returns a function that finds variables in env, for [Expand] and to
// read PATH for [Resolve].
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

// envVar is one variable as it was given, and where its name ends in there.
type envVar struct {
	kv  string
	end int
}

func (v envVar) name() string  { return v.kv[:v.end] }
func (v envVar) value() string { return v.kv[v.end+1:] }

func parseEnv(env []string) map[string]envVar {
	vars := make(map[string]envVar, len(env))
	for _, kv := range env {
		// Windows has names that start with "=".
		if i := strings.Index(kv[min(1, len(kv)):], "="); i >= 0 {
			v := envVar{kv, i + 1}
			vars[envKey(v.name())] = v
		}
	}
	return vars
}

// envKey is what two spellings of the same variable have in common.
func envKey(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}
	return name
}

func names(lists ...[]string) map[string]bool {
	set := make(map[string]bool)
	for _, name := range slices.Concat(lists...) {
		set[envKey(name)] = true
	}
	return set
}
