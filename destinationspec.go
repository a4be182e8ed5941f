package exthost

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/runtime"
)

// destinationSpec is everything that an instance of a destination is run with, and
// the values among it that only its secrets_file knows.
func (h *Host) destinationSpec(cfg *config.Config, name string, d config.Destination) (s runtime.Spec, report process.EnvReport, secrets []string, err error) {
	t := manifest.Transport{Kind: d.Type, Cmd: d.Command, Env: d.Env, Cwd: d.Cwd, URL: d.URL, Headers: d.Headers,
		Protocol: manifest.ProtocolMCP, MCPVersion: manifest.MCPVersionAuto}
	s = runtime.Spec{
		ID: name, Dir: t.Cwd, Manifest: &manifest.Manifest{Plugin: manifest.Plugin{ID: name}, Transport: t},
		Options: destinationOptions(cfg, d).Resolve(t), HostVersion: h.opts.Version, Self: h.opts.Self,
		StateDir: filepath.Join(h.opts.StateDir, ".destinations", url.PathEscape(name)),
		Logger:   h.log.With("extension", name), Containment: h.containment,
	}
	secret, err := readSecrets(d.SecretsFile)
	if err != nil {
		return s, report, nil, err
	}
	if err := os.MkdirAll(s.StateDir, 0o700); err != nil {
		return s, report, nil, fmt.Errorf("no state directory: %w", err)
	}
	s.Env, _ = h.childEnv(cfg, &s, secret)
	if s.Manifest, err = expanded(s.Manifest, process.Lookup(s.Env)); err != nil {
		return s, report, nil, err
	}
	stated := make(map[string]string)
	maps.Copy(stated, secret)
	maps.Copy(stated, s.Manifest.Transport.Env)
	s.Env, report = h.childEnv(cfg, &s, stated)
	return s, report, slices.Collect(maps.Values(secret)), nil
}

// destinationOptions are the [runtime] options of a destination: each connection
// has its own instance, which starts with it and again when it ends, as often as
// its fuse allows.
func destinationOptions(cfg *config.Config, d config.Destination) manifest.Runtime {
	most, unlimited, atOnce := maxConnections, -1, manifest.Duration(1)
	r := manifest.Runtime{
		Activation: manifest.ActivationLazy, Instances: cmp.Or(d.Instances, manifest.InstancesPerSession), StartTimeout: &d.StartTimeout,
		Restart: manifest.Restart{MaxAttempts: &unlimited, HealthyAfter: &atOnce},
	}
	if cfg.Extensions.Defaults.MaxInstances == nil {
		r.MaxInstances = &most
	}
	return r.Over(cfg.Extensions.Defaults)
}

// maxSecrets is the size of the largest file that is read as a secrets_file.
const maxSecrets = 1 << 20

// readSecrets reads NAME=value lines; empty ones and those that begin with # are
// skipped, quotes around a value are taken off. It never says what a line holds.
func readSecrets(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxSecrets) {
		err = fmt.Errorf("%s is no file of at most %d bytes", path, maxSecrets)
	}
	if err != nil {
		return nil, fmt.Errorf("secrets_file: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("secrets_file: %w", err)
	}
	vars := make(map[string]string)
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || strings.ContainsAny(name, " \t\"'") || strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("secrets_file: %s:%d is not NAME=value", path, n)
		}
		if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		vars[name] = value
	}
	return vars, nil
}
