package exthost

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// gate is what the requirements of extensions are held against.
func (h *Host) gate() discovery.Host {
	lookup := process.Lookup(h.opts.Environ)
	path, _ := lookup("PATH")
	return discovery.Host{LookupEnv: lookup, Path: path, Version: h.opts.Version}
}

// spec is everything the runtime needs to run one instance of c, and what its
// environment lacks.
func (h *Host) spec(cfg *config.Config, c discovery.Candidate) (runtime.Spec, process.EnvReport, error) {
	entry := cfg.Extensions.Entries[c.ID]
	s := runtime.Spec{
		ID: c.ID, Dir: c.Dir, Manifest: c.Manifest,
		Options:  entry.Runtime.Over(c.Manifest.Runtime.Over(cfg.Extensions.Defaults)).Resolve(c.Manifest.Transport),
		StateDir: filepath.Join(h.opts.StateDir, c.ID), HostVersion: h.opts.Version, Self: h.opts.Self,
		Logger: h.log.With("extension", c.ID), Containment: h.containment,
	}
	if err := os.MkdirAll(s.StateDir, 0o700); err != nil {
		return s, process.EnvReport{}, protocol.Errorf(protocol.SpawnFailed, "no state directory: %w", err)
	}
	var err error
	if s.Config, err = c.Manifest.MergeConfig(entry.Config); err != nil {
		return s, process.EnvReport{}, protocol.Errorf(protocol.ConfigInvalid, "%w; mend extensions.entries.%s.config", err, c.ID)
	}
	var report process.EnvReport
	if c.Owner != "" || remote(c.Manifest) { // an MCP server as other clients know it, or one elsewhere
		s.Env, report = h.childEnv(cfg, &s, nil)
		if s.Manifest, err = expanded(c.Manifest, process.Lookup(s.Env)); err != nil {
			return s, report, protocol.Errorf(protocol.ManifestInvalid, "%w", err)
		}
	}
	s.Env, report = h.childEnv(cfg, &s, s.Manifest.Transport.Env)
	return s, report, nil
}

// childEnv is the environment of an extension's processes: the host's less what
// looks secret, what the manifest and the operator state, and the host's own names.
func (h *Host) childEnv(cfg *config.Config, s *runtime.Spec, stated map[string]string) ([]string, process.EnvReport) {
	entry := cfg.Extensions.Entries[s.ID]
	cwd := s.Manifest.Transport.Cwd
	if !filepath.IsAbs(cwd) {
		cwd = filepath.Join(s.Dir, cwd)
	}
	set := map[string]string{"PWD": cwd}
	maps.Copy(set, stated)
	maps.Copy(set, entry.Env)
	maps.Copy(set, map[string]string{
		"EXTHOST_EXTENSION_ID":     s.ID,
		"EXTHOST_VERSION":          s.HostVersion,
		"EXTHOST_PROTOCOL_VERSION": strconv.Itoa(protocol.Version),
		"EXTHOST_STATE_DIR":        s.StateDir,
	})
	return process.Environ(h.opts.Environ, process.EnvPolicy{
		Mode: cfg.Extensions.Env.Mode, Pass: cfg.Extensions.Env.Pass,
		Declared: s.Manifest.Requires.Env, Deny: entry.EnvDeny, Set: set,
	})
}

// remote reports whether m is of a server that runs elsewhere.
func remote(m *manifest.Manifest) bool {
	return m.Transport.Kind == manifest.KindHTTP || m.Transport.Kind == manifest.KindSSE
}

// expanded returns m with the ${VAR} and ${VAR:-default} of its transport
// replaced, by what the child itself may know and nothing else. The error names
// everything that cannot be.
func expanded(m *manifest.Manifest, lookup func(string) (string, bool)) (*manifest.Manifest, error) {
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
	t.Cwd, t.URL = expand("cwd", t.Cwd), expand("url", t.URL)
	return &out, errors.Join(errs...)
}

// headerSecrets are the values of headers that must not be shown.
func headerSecrets(t manifest.Transport) (values []string) {
	for name, value := range t.Headers {
		if strings.EqualFold(name, "Authorization") {
			_, value, _ = strings.Cut(value, " ") // without the scheme
			name = "AUTH"
		}
		values = append(values, process.Secrets([]string{strings.ReplaceAll(name, "-", "_") + "=" + value})...)
	}
	return values
}
