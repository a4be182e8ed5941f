package unit

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/host/permit"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/manifest"
)

// packageRoot begins a command that is a program of the extension's package.
const packageRoot = "${" + permit.Variable + "}/"

// ExpandVariables returns m with ${VAR} and ${VAR:-default} in its transport expanded: from the transport's own env,
// else from lookup, which finds the child's other variables. In Command only a leading ~/, ${HOME}/ or packageRoot is
// expanded, so that no other variable decides which program runs; Cmd is expanded like the rest. The error names
// every missing variable.
func ExpandVariables(m *manifest.Manifest, lookup func(string) (string, bool)) (*manifest.Manifest, error) {
	out := *m
	t := &out.Transport
	t.Cmd, t.Args = slices.Clone(t.Cmd), slices.Clone(t.Args)
	t.Env, t.Headers = maps.Clone(t.Env), maps.Clone(t.Headers)
	var errs []error
	expand := func(key, text string, lookup func(string) (string, bool)) string {
		value, err := process.Expand(text, lookup)
		if err != nil {
			errs = append(errs, fmt.Errorf("transport.%s: %w", key, err))
		}
		return value
	}
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		t.Env[name] = expand("env."+name, t.Env[name], lookup)
	}
	own := func(name string) (string, bool) {
		if value, ok := t.Env[name]; ok {
			return value, true
		}
		return lookup(name)
	}
	for key, words := range map[string][]string{"command": t.Cmd, "args": t.Args} {
		for i, word := range words {
			words[i] = expand(key, word, own)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		t.Headers[name] = expand("headers."+name, t.Headers[name], own)
	}
	if strings.HasPrefix(t.Command, packageRoot) {
		t.Command = expand("command", t.Command, lookup)
	} else if command, err := inHome(t.Command); err != nil {
		errs = append(errs, fmt.Errorf("transport.command: %w", err))
	} else {
		t.Command = command
	}
	t.Cwd, t.URL = expand("cwd", t.Cwd, own), expand("url", t.URL, own)
	return &out, errors.Join(errs...)
}

// inHome expands a leading ~ or ${HOME} in a command.
func inHome(command string) (string, error) {
	for _, prefix := range []string{"~/", "${HOME}/"} {
		if rest, ok := strings.CutPrefix(command, prefix); ok {
			home, err := os.UserHomeDir()
			return filepath.Join(home, rest), err
		}
	}
	if strings.Contains(command, "${") {
		return "", fmt.Errorf("%s: a variable does not decide what runs: write the path in full, or begin it with "+
			"${HOME}/ or ~/", command)
	}
	return command, nil
}
