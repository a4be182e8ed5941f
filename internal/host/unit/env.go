package unit

import (
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/host/given"
	"github.com/exthost/exthost/internal/host/permit"
	"github.com/exthost/exthost/internal/observe/wiretap"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/recording/recorder"
	"github.com/exthost/exthost/internal/text/redact"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// Env is shared by all units of a host.
type Env struct {
	Log         *slog.Logger
	Containment *process.Containment // holds the processes of all units
	StateDir    string               // of the host
	Node        string               // the host's name in its cluster; "": none
	Self        string               // the program that command = "exthost" names; "" searches PATH
	Version     string               // of the host
	Environ     []string             // base of the environment of children
	StartLazy   bool                 // a destination starts an instance at once, to see whether it can
	Redactor    *redact.Redactor     // masks the secrets of all units
	Tap         *wiretap.Hub
	Recorder    *recorder.Hub
	Permits     permit.Rules // decide what may start
	// Stored returns the store of secrets that a configuration states. Nil: none.
	Stored func(*config.Config) given.Store
	// Logins returns the user's logins. Nil: none.
	Logins func(*config.Config) runtime.Logins
	// Services connects to extensions that are services on NATS. Nil: they do not run.
	Services runtime.Services
	// SecretsChanged is called when the secrets of a unit have changed.
	SecretsChanged func()
	// Command replaces the command line of an extension. Nil: the extension's own.
	Command func(id string, argv []string) []string
}

// Secrets returns the store of secrets of cfg, nil if none.
func (e *Env) Secrets(cfg *config.Config) given.Store {
	if e.Stored == nil {
		return nil
	}
	return e.Stored(cfg)
}

// Login returns the login for the server of t, nil if t states other credentials or there is no login.
func (e *Env) Login(cfg *config.Config, t *manifest.Transport, at runtime.LoginPlace) runtime.Login {
	if e.Logins == nil || !t.SignsIn() {
		return nil
	}
	logins := e.Logins(cfg)
	if logins == nil {
		return nil
	}
	at.URL = t.URL
	return logins.Login(at, t)
}

// KeepCaches makes Python store its bytecode caches below stateDir, if consent or a lock decides what runs: the user
// has not agreed to a cache beside the code, which need not match that code. With stateDir "" nothing changes.
func (e *Env) KeepCaches(env map[string]string, stateDir string) {
	if (e.Permits.Consent != nil || e.Permits.Packages != nil) && stateDir != "" {
		env["PYTHONPYCACHEPREFIX"] = filepath.Join(stateDir, ".pycache")
	}
}

// reservedVariable reports whether the system takes name for PLUGIN_ROOT or PLUGIN_DATA.
func reservedVariable(name string) bool {
	return process.SameVariable(name, agentplugin.RootVariable) || process.SameVariable(name, agentplugin.DataVariable)
}

// Child returns the environment of a unit's processes: the host's without variables that look like secrets, plus
// those that the manifest and the operator state, plus the host's own.
func (e *Env) Child(cfg *config.Config, s *runtime.Spec, stated map[string]string) ([]string, process.EnvReport) {
	entry := cfg.Extensions.Entries[s.ID]
	set := map[string]string{"PWD": s.WorkDir()}
	e.KeepCaches(set, s.StateDir)
	maps.Copy(set, s.Sandbox.Environ(s.StateDir))
	maps.Copy(set, stated)
	maps.Copy(set, cfg.Extensions.Environ(s.ID))
	maps.Copy(set, map[string]string{
		"EXTHOST_EXTENSION_ID":     s.ID,
		"EXTHOST_VERSION":          s.HostVersion,
		"EXTHOST_PROTOCOL_VERSION": strconv.Itoa(protocol.Version),
		"EXTHOST_STATE_DIR":        s.StateDir,
	})
	if s.Dir != "" {
		set[manifest.DirVariable] = s.Dir
	}
	if s.Manifest.Transport.Literal { // replaces what the package or the operator states
		maps.DeleteFunc(set, func(name, _ string) bool { return reservedVariable(name) })
		set[agentplugin.RootVariable], set[agentplugin.DataVariable] = s.Dir, s.StateDir
	}
	return process.Environ(e.Environ, process.EnvPolicy{
		Mode:     cfg.Extensions.Env.Mode,
		Pass:     slices.Concat(cfg.Extensions.Env.Pass, entry.EnvPass),
		Declared: s.Manifest.Requires.Env,
		Deny:     entry.EnvDeny,
		Set:      set,
	})
}
