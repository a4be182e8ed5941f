package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/file/ownership"
	"github.com/exthost/exthost/internal/host/given"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/text/envfile"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/runtime"
)

// newSpec returns the runtime spec of an instance of a destination, and the values of its secrets_file.
func newSpec(env *unit.Env, cfg *config.Config, name string, d config.Destination,
) (s runtime.Spec, report process.EnvReport, secrets []string, err error) {
	t := manifest.Transport{
		Kind:       d.Type,
		Cmd:        d.Command,
		Env:        d.Env,
		Cwd:        d.Cwd,
		URL:        d.URL,
		Headers:    d.Headers,
		OAuth:      d.OAuth,
		Protocol:   manifest.ProtocolMCP,
		MCPVersion: manifest.MCPVersionAuto,
	}
	s = runtime.Spec{
		ID:            name,
		Dir:           t.Cwd,
		Manifest:      &manifest.Manifest{Plugin: manifest.Plugin{ID: name}, Transport: t},
		Options:       options(cfg, d, env.StartLazy).Resolve(t), // a check reports the first failure
		HostVersion:   env.Version,
		Self:          env.Self,
		StateDir:      filepath.Join(env.StateDir, ".destinations", url.PathEscape(name)),
		Logger:        env.Log.With("extension", name),
		Containment:   env.Containment,
		Roots:         d.Roots,
		NewPrivileges: d.NewPrivileges,
	}
	owners := ownership.Rule{Safe: cfg.Extensions.SafeDirectories}
	secret, err := readSecrets(env, owners, name, d.SecretsFile)
	if err != nil {
		return s, report, nil, err
	}
	if err := os.MkdirAll(s.StateDir, 0o700); err != nil {
		return s, report, nil, fmt.Errorf("no state directory: %w", err)
	}
	s.Env, _ = env.Child(cfg, &s, secret)
	if s.Manifest, err = unit.ExpandVariables(s.Manifest, process.Lookup(s.Env)); err != nil {
		if len(d.Unset) > 0 { // these messages say where the variables are used
			err = errors.New(strings.Join(d.Unset, "\n"))
		}
		return s, report, nil, err
	}
	stated := make(map[string]string)
	maps.Copy(stated, secret)
	maps.Copy(stated, s.Manifest.Transport.Env)
	if refused := owners.Command(s.Dir, s.Manifest.Transport.CommandLine()); refused != nil {
		return s, report, nil, refused
	}
	s.Env, report = env.Child(cfg, &s, stated)
	if d.Credentials != config.CredentialsPerCaller {
		s.Login = env.Login(cfg, &s.Manifest.Transport, place(cfg, name, &d))
	}
	if err := give(env, cfg, &s, d, secret); err != nil {
		s.Env = nil // so that the source differs from that of a usable destination
		return s, report, nil, err
	}
	return s, report, slices.Collect(maps.Values(secret)), nil
}

// place returns where a user signs in to d.
func place(cfg *config.Config, name string, d *config.Destination) runtime.LoginPlace {
	p := runtime.LoginPlace{ID: name}
	if d.Project {
		p.Of = cfg.Project.Dir
	}
	return p
}

// give grants s the secrets that d refers to. A project's file may not refer to secrets, because it would choose the
// server or program that gets them.
func give(env *unit.Env, cfg *config.Config, s *runtime.Spec, d config.Destination, secret map[string]string) error {
	path := strict.Join("destinations", s.ID) + "."
	stated, variables := given.Stated{}, slices.Concat(slices.Collect(maps.Keys(secret)),
		slices.Collect(maps.Keys(d.Env)))
	for name, text := range secret {
		stated[path+"secrets_file ("+name+")"] = text
	}
	names, err := stated.Names()
	if err != nil {
		return err
	}
	if len(names) > 0 && d.ProjectSecrets {
		return errors.New(path + "secrets_file: " + config.NotOfProject)
	}
	for _, use := range cfg.SecretUses {
		if use.Project && strings.HasPrefix(use.Key, path) {
			return errors.New(use.Key + ": " + config.NotOfProject)
		}
	}
	return given.Give(s, env.Secrets(cfg),
		stated.With(given.OfTransport(path,
			&manifest.Transport{URL: d.URL, Env: d.Env, Headers: d.Headers, OAuth: d.OAuth}, nil)), variables...)
}

// maxConnections bounds the instances of a destination, unless extensions.defaults.max_instances is set.
const maxConnections = 64

// killGrace is the time between SIGTERM and SIGKILL, unless extensions.defaults.kill_grace is set.
const killGrace = manifest.Duration(5 * time.Second)

// options returns the [runtime] options of a destination: each connection has its own instance, which starts with
// it. The fourth failure in a row within five minutes begins the cooldown; with once, the first does.
func options(cfg *config.Config, d config.Destination, once bool) manifest.Runtime {
	most, restarts, window, grace := maxConnections, 3, manifest.Duration(5*time.Minute), killGrace
	if once {
		restarts = 0
	}
	r := manifest.Runtime{
		Activation:   manifest.ActivationLazy,
		Instances:    cmp.Or(d.Instances, manifest.InstancesPerSession),
		StartTimeout: &d.StartTimeout,
		Restart:      manifest.Restart{MaxAttempts: &restarts, Window: &window},
	}
	if cfg.Extensions.Defaults.MaxInstances == nil {
		r.MaxInstances = &most
	}
	if cfg.Extensions.Defaults.KillGrace == nil {
		r.KillGrace = &grace
	}
	return r.Over(cfg.Extensions.Defaults)
}

// readSecrets returns the variables of a secrets_file for a destination.
func readSecrets(env *unit.Env, owners ownership.Rule, name, path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	path, err := process.Expand(path, process.Lookup(env.Environ))
	var vars map[string]string
	if refused := owners.Named(path); err == nil && refused != nil {
		err = refused
	}
	if err == nil {
		vars, err = envfile.Read(path, name)
	}
	if err != nil {
		return nil, fmt.Errorf("secrets_file: %w", err)
	}
	return vars, nil
}
