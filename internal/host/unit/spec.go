package unit

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/file/ownership"
	"github.com/exthost/exthost/internal/host/given"
	"github.com/exthost/exthost/internal/host/permit"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/recording/player"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	ask "github.com/exthost/exthost/manifest/sandbox"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// Spec returns the runtime spec of an instance of c, and a report of its environment.
func (e *Env) Spec(cfg *config.Config, c discovery.Candidate) (runtime.Spec, process.EnvReport, error) {
	var report process.EnvReport
	s, err := e.statedSpec(cfg, &c)
	if err != nil {
		return s, report, err
	}
	dir, told, err := e.Permits.Package(&c, nil)
	if err != nil {
		return s, report, permit.Refusal(err)
	}
	if dir != "" && s.Sandbox != nil {
		s.Sandbox.Read = append(s.Sandbox.Read, dir)
	}
	if err := e.expand(cfg, &s, told); err != nil {
		return s, report, err
	}
	if c.Manifest.Transport.Kind == manifest.KindReplay {
		if err := replays(&s); err != nil {
			return s, report, protocol.Errorf(protocol.SpawnFailed, "transport.file: %w", err)
		}
	}
	if err := checkOwners(cfg, &s); err != nil {
		return s, report, err
	}
	env := statedEnv(&s.Manifest.Transport)
	if dir != "" {
		env = maps.Clone(told)
		maps.Copy(env, s.Manifest.Transport.Env)
		env[permit.Variable] = dir
	}
	s.Sandbox.Follow(s.Manifest.Transport.CommandLine(), s.WorkDir())
	s.Env, report = e.Child(cfg, &s, env)
	s.Login = e.Login(cfg, &s.Manifest.Transport, runtime.LoginPlace{ID: c.ID, Of: c.Dir})
	stated := cfg.Extensions.Environ(c.ID)
	texts := given.OfEntry(cfg, c.ID).With(given.OfTransport("transport.", &c.Manifest.Transport, stated))
	if err := given.Give(&s, e.Secrets(cfg), texts, stating(stated, &c.Manifest.Transport)...); err != nil {
		return s, report, err
	}
	if e.Command != nil && s.Manifest.Transport.Kind == manifest.KindStdio {
		if s.Manifest, err = e.replaceCommand(&s); err != nil {
			return s, report, protocol.Errorf(protocol.SpawnFailed, "%w", err)
		}
	}
	return s, report, nil
}

// expand replaces the placeholders of a server of a plugin, and the variables in the transport of another MCP server.
func (e *Env) expand(cfg *config.Config, s *runtime.Spec, told map[string]string) (err error) {
	switch t := s.Manifest.Transport; {
	case t.Literal:
		if err := launches(s); err != nil {
			return protocol.Errorf(protocol.SpawnFailed, "%w", err)
		}
	case t.Protocol == manifest.ProtocolMCP:
		s.Env, _ = e.Child(cfg, s, told)
		if s.Manifest, err = ExpandVariables(s.Manifest, process.Lookup(s.Env)); err != nil {
			return protocol.Errorf(protocol.ManifestInvalid, "%w", err)
		}
	}
	return nil
}

// statedEnv returns the variables that a transport states. Those with secrets are resolved at each start.
func statedEnv(t *manifest.Transport) map[string]string {
	env := make(map[string]string, len(t.Env)+len(t.Secrets.Env))
	maps.Copy(env, t.Env)
	maps.Copy(env, t.Secrets.Env)
	return env
}

// stating returns the variables whose values may refer to secrets: those that the operator states, and those of t.
func stating(stated map[string]string, t *manifest.Transport) []string {
	names := slices.Collect(maps.Keys(stated))
	if t.Literal {
		return slices.AppendSeq(names, maps.Keys(t.Secrets.Env))
	}
	return slices.AppendSeq(names, maps.Keys(t.Env))
}

// statedSpec returns the part of a spec that the manifest and the configuration state.
func (e *Env) statedSpec(cfg *config.Config, c *discovery.Candidate) (runtime.Spec, error) {
	entry, t := cfg.Extensions.Entries[c.ID], c.Manifest.Transport
	s := runtime.Spec{
		ID:            c.ID,
		Dir:           c.Dir,
		Manifest:      c.Manifest,
		Options:       entry.Runtime.Over(c.Manifest.Runtime.Over(cfg.Extensions.Defaults)).Resolve(t),
		StateDir:      filepath.Join(e.StateDir, stateOf(c)),
		HostVersion:   e.Version,
		Self:          e.Self,
		Logger:        e.Log.With("extension", c.ID),
		Containment:   e.Containment,
		Roots:         entry.Roots,
		NewPrivileges: entry.NewPrivileges,
		Services:      e.Services,
	}
	if err := os.MkdirAll(s.StateDir, 0o700); err != nil {
		return s, protocol.Errorf(protocol.SpawnFailed, "no state directory: %w", err)
	}
	var err error
	if s.Config, err = c.Manifest.MergeConfig(entry.Config); err != nil {
		return s, protocol.Errorf(protocol.ConfigInvalid, "%w; fix extensions.entries.%s.config", err, c.ID)
	}
	table := entry.Sandbox.Over(c.Manifest.Sandbox, cfg.Extensions.Sandbox.Default, t.Command)
	if table == nil || t.URL != "" || t.Kind == manifest.KindNATS { // a remote server has no process on this machine
		return s, nil
	}
	if c.Portable() && !slices.Contains(table.Write, ask.State) { // its PLUGIN_DATA, which it may always write
		own := *table
		own.Write = append(slices.Clone(own.Write), ask.State)
		table = &own
	}
	place := sandbox.PlaceOf(c.Dir, s.StateDir, cfg.Secrets.Path, cfg.Secrets.Identity)
	if s.Sandbox, err = sandbox.Resolve(table, place); err != nil {
		return s, protocol.Errorf(protocol.ManifestInvalid, "%w", err)
	}
	s.Sandbox.LogTo(s.Logger)
	return s, nil
}

// Plugins is the directory below a host's state directory that has the PLUGIN_DATA of each plugin, by its name.
const Plugins = ".plugins"

// stateOf returns the state directory of c below that of the host. The servers of a plugin share one, their
// PLUGIN_DATA; it lies apart, since the name of a plugin may be that of an extension or, as pins.json, of a file of the
// host.
func stateOf(c *discovery.Candidate) string {
	if c.Portable() {
		return filepath.Join(Plugins, c.Owner)
	}
	return c.ID
}

// launches prepares a server of a plugin: s runs in the package, with links resolved, and the transport has its
// placeholders replaced.
func launches(s *runtime.Spec) (err error) {
	if s.Dir, err = agentplugin.Root(s.Dir); err != nil {
		return err
	}
	if s.StateDir, err = agentplugin.Root(s.StateDir); err != nil {
		return err
	}
	m := *s.Manifest
	m.Transport, err = agentplugin.Launch(m.Transport, s.Dir, s.StateDir)
	s.Manifest = &m
	return err
}

// checkOwners refuses a token file and programs of s that other users may change.
func checkOwners(cfg *config.Config, s *runtime.Spec) error {
	owners := ownership.Rule{Safe: cfg.Extensions.SafeDirectories}
	if file := s.Manifest.Transport.TokenFile; file != "" {
		if refused := owners.Secret(filepath.Join(s.Dir, file)); refused != nil {
			return protocol.Errorf(protocol.SpawnFailed, "transport.token_file: %s: %s; %s", refused.Path,
				refused.Message, refused.Hint)
		}
	}
	commands := [][]string{s.Manifest.Transport.CommandLine()}
	for _, h := range s.Manifest.Hooks {
		commands = append(commands, h.Command)
	}
	for _, argv := range commands {
		if refused := owners.Command(s.Dir, argv); refused != nil {
			return protocol.Errorf(protocol.SpawnFailed, "%s; %s", refused.Message, refused.Hint)
		}
	}
	return nil
}

// replays opens the cassette of s, which determines the protocol.
func replays(s *runtime.Spec) (err error) {
	m := *s.Manifest
	t := &m.Transport
	file := t.File
	if !filepath.IsAbs(file) {
		file = filepath.Join(s.Dir, file)
	}
	if s.Replay, err = player.Open(player.Options{
		File:      file,
		Extension: t.Extension,
		Nearest:   t.Match == manifest.MatchNearest,
		Real:      t.Latency == manifest.LatencyReal,
	}); err != nil {
		return err
	}
	t.Protocol, s.Manifest = s.Replay.Protocol(), &m
	return nil
}

// replaceCommand returns the manifest of s with the command line of e.Command.
func (e *Env) replaceCommand(s *runtime.Spec) (*manifest.Manifest, error) {
	m := *s.Manifest
	t := &m.Transport
	argv := t.CommandLine()
	if t.Script != "" {
		path, _ := process.Lookup(s.Env)("PATH")
		launch, err := process.LaunchScript(t.Script, s.Dir, path)
		if err != nil {
			return nil, err
		}
		argv = append(launch, t.Args...)
	}
	t.Command, t.Args, t.Script = "", nil, ""
	t.Cmd = e.Command(s.ID, argv)
	return &m, nil
}
