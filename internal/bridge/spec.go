package bridge

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/runtime"
)

// newSpec returns everything that the runtime needs to run an instance of a destination,
// and the values that only its secrets_file states.
func newSpec(env *unit.Env, cfg *config.Config, name string, d config.Destination) (s runtime.Spec, report process.EnvReport, secrets []string, err error) {
	t := manifest.Transport{Kind: d.Type, Cmd: d.Command, Env: d.Env, Cwd: d.Cwd, URL: d.URL, Headers: d.Headers,
		Protocol: manifest.ProtocolMCP, MCPVersion: manifest.MCPVersionAuto}
	s = runtime.Spec{
		ID: name, Dir: t.Cwd, Manifest: &manifest.Manifest{Plugin: manifest.Plugin{ID: name}, Transport: t},
		Options: options(cfg, d).Resolve(t), HostVersion: env.Version, Self: env.Self,
		StateDir: filepath.Join(env.StateDir, ".destinations", url.PathEscape(name)),
		Logger:   env.Log.With("extension", name), Containment: env.Containment,
	}
	secret, err := readSecrets(d.SecretsFile)
	if err != nil {
		return s, report, nil, err
	}
	if err := os.MkdirAll(s.StateDir, 0o700); err != nil {
		return s, report, nil, fmt.Errorf("no state directory: %w", err)
	}
	s.Env, _ = env.Child(cfg, &s, secret)
	if s.Manifest, err = unit.Expand(s.Manifest, process.Lookup(s.Env)); err != nil {
		return s, report, nil, err
	}
	stated := make(map[string]string)
	maps.Copy(stated, secret)
	maps.Copy(stated, s.Manifest.Transport.Env)
	s.Env, report = env.Child(cfg, &s, stated)
	return s, report, slices.Collect(maps.Values(secret)), nil
}

// maxConnections is how many instances a destination has at most, unless
// extensions.defaults.max_instances says otherwise.
const maxConnections = 64

// options returns the [runtime] options of a destination: each connection has an
// instance of its own, which starts with the connection. The third failure in a row within
// five minutes begins the cooldown.
func options(cfg *config.Config, d config.Destination) manifest.Runtime {
	most, restarts, window, atOnce := maxConnections, 2, manifest.Duration(5*time.Minute), manifest.Duration(1)
	r := manifest.Runtime{
		Activation: manifest.ActivationLazy, Instances: cmp.Or(d.Instances, manifest.InstancesPerSession), StartTimeout: &d.StartTimeout,
		Restart: manifest.Restart{MaxAttempts: &restarts, Window: &window, HealthyAfter: &atOnce},
	}
	if cfg.Extensions.Defaults.MaxInstances == nil {
		r.MaxInstances = &most
	}
	return r.Over(cfg.Extensions.Defaults)
}

// maxSecrets is the size of the largest secrets_file, in bytes.
const maxSecrets = 1 << 20

// readSecrets reads NAME=value lines. It skips empty lines and those that begin with #,
// and removes quotes around a value. Its errors never quote a line.
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
