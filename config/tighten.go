package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/config/otel"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/recording/faults"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/sandbox"
)

// guard keeps the security settings of the system's and the user's files. A project's files may tighten but not
// loosen them, since the directory is often another person's.
type guard struct {
	allowlist, pass []string
	mode            string
	trust           string
	minAge          manifest.Duration
	isolate         string
	sandbox         string
	entries         map[string]guardedEntry
	headers         []string
	destinations    Destinations
	server          Server
	toolsets        map[string]Toolset
	audit           Audit
	secrets         Secrets
	otel            otel.Tracing
	safe            []string
	inject          []faults.Rule
	cluster         cluster.Membership
	positions       strict.Positions
}

// guardedEntry is the guarded part of an [Entry].
type guardedEntry struct {
	deny    []string
	env     map[string]string
	config  map[string]any
	envFile string
	pass    []string
	isolate string
	sandbox sandbox.Override
	hooks   string // "": not stated
}

// guard records the settings of the layers so far.
func (l *loader) guard() *guard {
	c := l.cfg
	g := &guard{
		allowlist:    slices.Clone(c.Extensions.Allowlist),
		pass:         slices.Clone(c.Extensions.Env.Pass),
		mode:         c.Extensions.Env.Mode,
		trust:        c.Extensions.Trust,
		minAge:       c.Extensions.MinReleaseAge,
		isolate:      c.Extensions.Defaults.Isolate,
		sandbox:      c.Extensions.Sandbox.Default,
		entries:      make(map[string]guardedEntry),
		headers:      slices.Clone(c.Governance.Headers),
		destinations: maps.Clone(c.Destinations),
		server:       c.Server,
		toolsets:     toolset.Clone(c.Toolsets),
		audit:        c.Audit,
		secrets:      c.Secrets,
		safe:         c.Extensions.SafeDirectories,
		inject:       slices.Clone(c.Inject),
		cluster:      c.Cluster,
		otel:         c.OTel,
		positions:    maps.Clone(l.decoder.Positions),
	}
	for _, list := range []*[]string{&g.server.Auth.OAuth.Scopes, &g.server.AllowedOrigins, &g.server.AllowedHosts} {
		*list = slices.Clone(*list)
	}
	g.server.Clients, g.otel.Headers = maps.Clone(c.Server.Clients), maps.Clone(c.OTel.Headers)
	for id, e := range c.Extensions.Entries {
		was := guardedEntry{
			deny:    slices.Clone(e.EnvDeny),
			env:     maps.Clone(e.Env),
			config:  maps.Clone(e.Config),
			envFile: e.EnvFile,
			pass:    slices.Clone(e.EnvPass),
			isolate: e.Runtime.Isolate,
			sandbox: e.Sandbox,
		}
		if _, stated := g.positions[strict.Join("extensions.entries", id)+".hooks"]; stated {
			was.hooks = e.Hooks
		}
		g.entries[id] = was
	}
	for name, d := range g.destinations {
		d.Headers, d.Env, d.EnvFromHeaders, d.Command = maps.Clone(d.Headers), maps.Clone(d.Env),
			maps.Clone(d.EnvFromHeaders), slices.Clone(d.Command)
		g.destinations[name] = d
	}
	return g
}

// keep reverts what the directory's files have loosened, with a warning for each key.
func (l *loader) keep(g *guard) {
	x := &l.cfg.Extensions
	g.keepValue(l, "extensions.allowlist",
		len(g.allowlist) == 0 || len(x.Allowlist) > 0 && within(x.Allowlist, g.allowlist),
		func() { x.Allowlist = g.allowlist })
	if !within(x.SafeDirectories, g.safe) {
		x.SafeDirectories = g.safe
		l.ignored(g, "extensions.safe_directories", inUsersFile, "say whose files count")
	}
	if !reflect.DeepEqual(l.cfg.Secrets, g.secrets) {
		l.cfg.Secrets = g.secrets
		l.ignored(g, "secrets", inUsersFile, "say where the user's secrets are")
	}
	if !reflect.DeepEqual(l.cfg.OTel, g.otel) {
		l.cfg.OTel = g.otel
		l.ignored(g, "otel", inUsersFile, "say where traces of the user's calls are sent")
	}
	if !reflect.DeepEqual(l.cfg.Inject, g.inject) {
		l.cfg.Inject = g.inject
		l.ignored(g, "inject", inUsersFile, "have calls fail")
	}
	if !l.cfg.Cluster.Equal(&g.cluster) {
		l.cfg.Cluster = g.cluster
		l.ignored(g, "cluster", inUsersFile, "have the host join others")
	}
	if g.mode == EnvAllowlist {
		g.keepValue(l, "extensions.env.mode", x.Env.Mode == g.mode, func() { x.Env.Mode = g.mode })
		g.keepValue(l, "extensions.env.pass", within(x.Env.Pass, g.pass), func() { x.Env.Pass = g.pass })
	}
	if l.decoder.Positions["extensions.trust"] != g.positions["extensions.trust"] {
		x.Trust = g.trust
		l.ignored(g, "extensions.trust", "state it in the user's file, with --trust or in EXTHOST_TRUST",
			"say whether it is trusted")
	}
	g.keepValue(l, "extensions.min_release_age", x.MinReleaseAge >= g.minAge, func() { x.MinReleaseAge = g.minAge })
	g.keepValue(l, "extensions.defaults.isolate", g.isolate != manifest.IsolatePID || x.Defaults.Isolate == g.isolate,
		func() { x.Defaults.Isolate = g.isolate })
	g.keepValue(l, "extensions.sandbox.default", g.sandbox != sandbox.Strict || x.Sandbox.Default == g.sandbox,
		func() { x.Sandbox.Default = g.sandbox })
	for _, id := range slices.Sorted(maps.Keys(x.Entries)) {
		l.keepEntry(g, id)
	}
	for _, name := range slices.Sorted(maps.Keys(g.destinations)) {
		if !l.cfg.Destinations[name].sameServer(g.destinations[name]) {
			l.cfg.Destinations[name] = g.destinations[name]
			l.kept(g, strict.Join("destinations", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.cfg.Destinations)) {
		d := l.cfg.Destinations[name]
		l.keepUnprivileged(g, strict.Join("destinations", name), &d.NewPrivileges)
		l.cfg.Destinations[name] = d
	}
	g.keepValue(l, "governance.headers", within(g.headers, l.cfg.Governance.Headers),
		func() { l.cfg.Governance.Headers = g.headers })
	g.keepServer(l)
	for _, key := range toolset.Keep(l.cfg.Toolsets, g.toolsets, g.server.toolsets()) {
		l.ignored(g, key, "choose another name, or "+inUsersFile, "say what the user's clients see")
	}
	g.keepValue(l, "server.toolset", g.server.Toolset == "" || l.cfg.Server.Toolset == g.server.Toolset,
		func() { l.cfg.Server.Toolset = g.server.Toolset })
	g.keepValue(l, "audit", g.audit.Path == "" || l.cfg.Audit == g.audit, func() { l.cfg.Audit = g.audit })
}

func (g *guard) keepServer(l *loader) {
	s := &l.cfg.Server
	const loopback = "server.auth.loopback"
	if s.Auth.Loopback == LoopbackAny && l.decoder.Positions[loopback] != g.positions[loopback] {
		s.Auth.Loopback = g.server.Auth.Loopback
		l.ignored(g, loopback, inUsersFile, "let other users in")
	}
	if !maps.Equal(s.Clients, g.server.Clients) {
		s.Clients = g.server.Clients
		l.ignored(g, "server.clients", inUsersFile, "say who the host's clients are")
	}
	g.keepValue(l, "server.auth",
		!g.server.Auth.Stated() && len(g.server.Clients) == 0 || reflect.DeepEqual(s.Auth, g.server.Auth),
		func() { s.Auth = g.server.Auth })
	g.keepValue(l, "server.tls", g.server.TLS.Cert == "" || s.TLS == g.server.TLS, func() { s.TLS = g.server.TLS })
	g.keepValue(l, "server.allowed_origins",
		len(g.server.AllowedOrigins) == 0 || within(s.AllowedOrigins, g.server.AllowedOrigins),
		func() { s.AllowedOrigins = g.server.AllowedOrigins })
	g.keepValue(l, "server.allowed_hosts",
		len(g.server.AllowedHosts) == 0 || within(s.AllowedHosts, g.server.AllowedHosts),
		func() { s.AllowedHosts = g.server.AllowedHosts })
}

func (l *loader) keepEntry(g *guard, id string) {
	entries := l.cfg.Extensions.Entries
	was, e, path := g.entries[id], entries[id], strict.Join("extensions.entries", id)
	if !within(was.deny, e.EnvDeny) {
		e.EnvDeny = slices.Compact(slices.Sorted(slices.Values(slices.Concat(was.deny, e.EnvDeny))))
		l.kept(g, path+".env_deny")
	}
	if was.hasSecrets() { // its variables or config could load code or send the secrets elsewhere
		g.keepValue(l, path+".env", maps.Equal(e.Env, was.env), func() { e.Env = was.env })
		g.keepValue(l, path+".config", reflect.DeepEqual(e.Config, was.config), func() { e.Config = was.config })
		g.keepValue(l, path+".env_file", e.EnvFile == was.envFile, func() { e.EnvFile = was.envFile })
		g.keepValue(l, path+".env_pass", within(e.EnvPass, was.pass), func() { e.EnvPass = was.pass })
	}
	if want := cmp.Or(was.isolate, g.isolate); want == manifest.IsolatePID &&
		e.Runtime.Isolate == manifest.IsolateNone {
		e.Runtime.Isolate = was.isolate
		l.kept(g, path+".runtime.isolate")
	}
	if sees := []string{
		HooksNone,
		HooksOwn,
		HooksAll,
	}; was.hooks != "" && slices.Index(sees, e.Hooks) > slices.Index(sees, was.hooks) {
		e.Hooks = was.hooks
		l.kept(g, path+".hooks")
	}
	if !reflect.DeepEqual(e.Sandbox, was.sandbox) &&
		!(e.Sandbox.Word() == sandbox.Strict && (was.sandbox.IsZero() || was.sandbox.Word() != "")) {
		e.Sandbox = was.sandbox // a project's other settings may allow more than the manifest asks for
		l.ignored(g, path+".sandbox", inUsersFile, "state anything but strict, and that only in place of off")
	}
	l.keepUnprivileged(g, path, &e.NewPrivileges)
	entries[id] = e
}

// hasSecrets reports whether the extension gets stored secrets.
func (e *guardedEntry) hasSecrets() bool {
	for name, value := range e.env {
		if isSecret(name, value) || secrets.Refers(value) {
			return true
		}
	}
	return e.envFile != "" || len(e.pass) > 0
}

// keepUnprivileged reverts new_privileges if the directory's files state anything about the same processes, such
// as their command: a project must not choose what runs with privileges.
func (l *loader) keepUnprivileged(g *guard, path string, privileged *bool) {
	now, key := l.decoder.Positions, path+".new_privileges"
	pos := now[path]
	if !*privileged || pos == g.positions[path] {
		return
	}
	*privileged = false
	if now[key] != g.positions[key] {
		pos = now[key]
	}
	l.report.Warn(pos, "state both in the user's file, or in one of --config FILE",
		"%s: ignored, because a project's file can neither set it nor state anything else of %s", key, path)
	l.restore(g, key)
}

// keepValue reverts a changed key with a warning.
func (g *guard) keepValue(l *loader, path string, same bool, undo func()) {
	if !same {
		undo()
		l.kept(g, path)
	}
}

// inUsersFile is the hint for a key that a project's file cannot state.
const inUsersFile = "state it in the user's file, or in one of --config FILE"

// ignored warns that the directory's files cannot state path.
func (l *loader) ignored(g *guard, path, next, that string) {
	pos, _ := l.decoder.Positions.At(path)
	l.report.Warn(pos, next, "%s: ignored, because a project's file cannot %s", path, that)
	l.restore(g, path)
}

// kept warns that the directory's value of path is ignored.
func (l *loader) kept(g *guard, path string) {
	pos, _ := l.decoder.Positions.At(path)
	by, _ := g.positions.At(path)
	l.report.Warn(pos, "a project's file can only tighten it; change it there, or with --config FILE",
		"%s: ignored, because it loosens what %s states", path, by)
	l.restore(g, path)
}

// restore resets the recorded origin of path to the one before the directory's files.
func (l *loader) restore(g *guard, path string) {
	now := l.decoder.Positions
	below := func(key string, _ strict.Pos) bool {
		return key == path || strings.HasPrefix(key, path+".") || strings.HasPrefix(key, path+"[")
	}
	maps.DeleteFunc(now, below)
	for key, before := range g.positions {
		if below(key, before) {
			now[key] = before
		}
	}
}

// within reports whether every element of some is in all.
func within(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// sameServer reports whether d and other reach the same server, which may then get the headers of both. A program
// with other variables counts as another, since NODE_OPTIONS and the like make it load code.
func (d Destination) sameServer(other Destination) bool {
	return d.Type == other.Type && d.URL == other.URL && slices.Equal(d.Command, other.Command) && d.Cwd == other.Cwd &&
		d.SecretsFile == other.SecretsFile &&
		maps.Equal(d.Env, other.Env) && maps.Equal(d.EnvFromHeaders, other.EnvFromHeaders)
}
