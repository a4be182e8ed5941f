// Package variables replaces the references to environment variables in the transport of a
// manifest.
package variables

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/permit"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/manifest"
)

// packageRoot begins a command that is a program of the extension's package.
const packageRoot = "${" + permit.Variable + "}/"

// Expand returns m with the ${VAR} and ${VAR:-default} of its transport replaced. lookup
// finds the variables that the child itself is given. The error names every variable that
// is missing.
func Expand(m *manifest.Manifest, lookup func(string) (string, bool)) (*manifest.Manifest, error) {
	out := *m
	t := &out.Transport
	t.Cmd, t.Args, t.Env, t.Headers = slices.Clone(t.Cmd), slices.Clone(t.Args), maps.Clone(t.Env), maps.Clone(t.Headers)
	var errs []error
	expand := func(key, text string) string {
		value, err := process.Expand(text, lookup)
		if err != nil {
			errs = append(errs, fmt.Errorf("transport.%s: %w", key, err))
		}
		return value
	}
	for key, words := range map[string][]string{"command": t.Cmd, "args": t.Args} {
		for i, word := range words {
			words[i] = expand(key, word)
		}
	}
	for _, values := range []struct {
		key string
		of  map[string]string
	}{{"env", t.Env}, {"headers", t.Headers}} {
		for _, name := range slices.Sorted(maps.Keys(values.of)) {
			values.of[name] = expand(values.key+"."+name, values.of[name])
		}
	}
	if strings.HasPrefix(t.Command, packageRoot) { // no other variable decides what runs
		t.Command = expand("command", t.Command)
	}
	t.Cwd, t.URL = expand("cwd", t.Cwd), expand("url", t.URL)
	return &out, errors.Join(errs...)
}
