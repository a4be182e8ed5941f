package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/sandbox"
	"github.com/exthost/exthost/protocol"
)

// guard holds the configuration as it was before a project's files. These may tighten but not loosen what the system's
// and the user's files state about security, as the directory often comes from another person.
type guard struct {
	*loader
	was       *Config
	positions strict.Positions // positions of the values in was
}

func (l *loader) guard() *guard {
	return &guard{l, clone(reflect.ValueOf(l.cfg)).Interface().(*Config), maps.Clone(l.decoder.Positions)}
}

// clone returns a deep copy of a configuration: the decoder changes maps and lists in place. Unexported fields are
// shared.
func clone(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if out.Field(i).CanSet() {
				out.Field(i).Set(clone(v.Field(i)))
			}
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		out.Set(reflect.New(v.Type().Elem()))
		out.Elem().Set(clone(v.Elem()))
	case v.Kind() == reflect.Interface && !v.IsNil():
		out.Set(clone(v.Elem()))
	case v.Kind() == reflect.Slice && !v.IsNil():
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(clone(v.Index(i)))
		}
	case v.Kind() == reflect.Map && !v.IsNil():
		out.Set(reflect.MakeMap(v.Type()))
		for key, value := range v.Seq2() {
			out.SetMapIndex(key, clone(value))
		}
	}
	return out
}

// keep reverts what the directory's files have loosened, with a warning for each key.
func (g *guard) keep() {
	g.refuse("", reflect.ValueOf(g.cfg).Elem(), reflect.ValueOf(g.was).Elem())
	g.keepExtensions()
	g.keepDestinations()
	g.keepValue("governance.headers", within(g.was.Governance.Headers, g.cfg.Governance.Headers),
		func() { g.cfg.Governance.Headers = g.was.Governance.Headers })
	g.keepServer()
	for _, key := range toolset.Keep(g.cfg.Toolsets, g.was.Toolsets, g.was.Server.toolsets()) {
		g.ignored(key, "choose another name, or "+inUsersFile, "say what the user's clients see")
	}
	g.keepValue("audit", g.was.Audit.Path == "" || g.cfg.Audit == g.was.Audit, func() { g.cfg.Audit = g.was.Audit })
}

// refuse reverts the fields with the tag project:"no" that the directory's files state or change.
func (g *guard) refuse(path string, now, was reflect.Value) {
	for i := range now.NumField() {
		f := now.Type().Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		decision, what, _ := strings.Cut(f.Tag.Get("project"), ",")
		at := strings.TrimPrefix(path+"."+key, ".")
		if key == "-" || !f.IsExported() {
			continue
		}
		has, had := now.Field(i), was.Field(i)
		if decision == "" && has.Kind() == reflect.Struct {
			g.refuse(at, has, had)
			continue
		}
		changed := !reflect.DeepEqual(has.Interface(), had.Interface())
		if decision == "no" && (changed || g.states(at, has.Kind())) {
			has.Set(had)
			g.ignored(at, nextTo(at), what)
		}
	}
}

// states reports whether the directory's files state a string. Values of other kinds are only refused if they change.
func (g *guard) states(path string, kind reflect.Kind) bool {
	return kind == reflect.String && g.decoder.Positions[path] != g.positions[path]
}

// nextTo returns the hint for a key that a project's file cannot state.
func nextTo(path string) string {
	if path == "extensions.trust" {
		return "state it in the user's file, with --trust or in EXTHOST_TRUST"
	}
	return inUsersFile
}

func (g *guard) keepExtensions() {
	x, was := &g.cfg.Extensions, &g.was.Extensions
	g.keepValue("extensions.allowlist",
		len(was.Allowlist) == 0 || len(x.Allowlist) > 0 && within(x.Allowlist, was.Allowlist),
		func() { x.Allowlist = was.Allowlist })
	if !within(x.SafeDirectories, was.SafeDirectories) {
		x.SafeDirectories = was.SafeDirectories
		g.ignored("extensions.safe_directories", inUsersFile, "say whose files count")
	}
	if was.Env.Mode == EnvAllowlist {
		g.keepValue("extensions.env.mode", x.Env.Mode == was.Env.Mode, func() { x.Env.Mode = was.Env.Mode })
		g.keepValue("extensions.env.pass", within(x.Env.Pass, was.Env.Pass), func() { x.Env.Pass = was.Env.Pass })
	}
	g.keepValue("extensions.min_release_age", x.MinReleaseAge >= was.MinReleaseAge,
		func() { x.MinReleaseAge = was.MinReleaseAge })
	isolate, confine := was.Defaults.Isolate, was.Sandbox.Default
	g.keepValue("extensions.defaults.isolate", isolate != manifest.IsolatePID || x.Defaults.Isolate == isolate,
		func() { x.Defaults.Isolate = isolate })
	g.keepValue("extensions.sandbox.default", confine != sandbox.Strict || x.Sandbox.Default == confine,
		func() { x.Sandbox.Default = confine })
	for _, id := range slices.Sorted(maps.Keys(x.Entries)) {
		e := x.Entries[id]
		g.keepEntry(id, &e)
		x.Entries[id] = e
	}
}

func (g *guard) keepEntry(id string, e *Entry) {
	was, path := g.was.Extensions.Entries[id], strict.Join("extensions.entries", id)
	if !within(was.EnvDeny, e.EnvDeny) {
		e.EnvDeny = slices.Compact(slices.Sorted(slices.Values(slices.Concat(was.EnvDeny, e.EnvDeny))))
		g.kept(path + ".env_deny")
	}
	if was.hasSecrets() { // a project's env or config could load code or send the secrets elsewhere
		g.keepValue(path+".env", maps.Equal(e.Env, was.Env), func() { e.Env = was.Env })
		g.keepValue(path+".config", reflect.DeepEqual(e.Config, was.Config), func() { e.Config = was.Config })
		g.keepValue(path+".env_file", e.EnvFile == was.EnvFile, func() { e.EnvFile = was.EnvFile })
		g.keepValue(path+".env_pass", within(e.EnvPass, was.EnvPass), func() { e.EnvPass = was.EnvPass })
	}
	isolated := cmp.Or(was.Runtime.Isolate, g.was.Extensions.Defaults.Isolate) == manifest.IsolatePID
	g.keepValue(path+".runtime.isolate", !isolated || e.Runtime.Isolate != manifest.IsolateNone,
		func() { e.Runtime.Isolate = was.Runtime.Isolate })
	_, stated := g.positions[path+".hooks"]
	sees := []string{HooksNone, HooksOwn, HooksAll}
	g.keepValue(path+".hooks", !stated || slices.Index(sees, e.Hooks) <= slices.Index(sees, was.Hooks),
		func() { e.Hooks = was.Hooks })
	if !reflect.DeepEqual(e.Sandbox, was.Sandbox) &&
		!(e.Sandbox.Word() == sandbox.Strict && (was.Sandbox.IsZero() || was.Sandbox.Word() != "")) {
		e.Sandbox = was.Sandbox // any other value of a project may allow more than the manifest asks for
		g.ignored(path+".sandbox", inUsersFile, "state anything but strict, and that only in place of off")
	}
	g.keepUnprivileged(path, &e.NewPrivileges)
	g.keepRisks(path+".tools", e.Tools, was.Tools)
}

// keepRisks reverts the risks that the directory's files may have lowered. What a tool says of itself is not known yet,
// so that without a statement of the user's any value but the highest may be lower.
func (g *guard) keepRisks(path string, now, was map[string]ToolEntry) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		risk, before := now[name].Risk, was[name].Risk
		if risk == before || risk == protocol.RiskDestroy || before != "" && risk.Exceeds(before) {
			continue
		}
		key := strict.Join(path, name)
		if before == "" {
			delete(now, name)
			g.ignored(key, "state destroy, or "+inUsersFile, "lower the risk of a tool")
		} else {
			now[name] = was[name]
			g.kept(key + ".risk")
		}
	}
}

func (g *guard) keepDestinations() {
	all := g.cfg.Destinations
	for _, name := range slices.Sorted(maps.Keys(g.was.Destinations)) {
		if !all[name].sameServer(g.was.Destinations[name]) {
			all[name] = g.was.Destinations[name]
			g.kept(strict.Join("destinations", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d := all[name]
		g.keepUnprivileged(strict.Join("destinations", name), &d.NewPrivileges)
		all[name] = d
	}
}

func (g *guard) keepServer() {
	s, was := &g.cfg.Server, &g.was.Server
	const loopback = "server.auth.loopback"
	if s.Auth.Loopback == LoopbackAny && g.decoder.Positions[loopback] != g.positions[loopback] {
		s.Auth.Loopback = was.Auth.Loopback
		g.ignored(loopback, inUsersFile, "let other users in")
	}
	g.keepValue("server.auth",
		!was.Auth.Stated() && len(was.Clients) == 0 || reflect.DeepEqual(s.Auth, was.Auth),
		func() { s.Auth = was.Auth })
	g.keepValue("server.tls", was.TLS.Cert == "" || s.TLS == was.TLS, func() { s.TLS = was.TLS })
	g.keepValue("server.allowed_origins",
		len(was.AllowedOrigins) == 0 || within(s.AllowedOrigins, was.AllowedOrigins),
		func() { s.AllowedOrigins = was.AllowedOrigins })
	g.keepValue("server.allowed_hosts", len(was.AllowedHosts) == 0 || within(s.AllowedHosts, was.AllowedHosts),
		func() { s.AllowedHosts = was.AllowedHosts })
	g.keepValue("server.toolset", was.Toolset == "" || s.Toolset == was.Toolset,
		func() { s.Toolset = was.Toolset })
}

// hasSecrets reports whether the extension gets stored secrets.
func (e *Entry) hasSecrets() bool {
	for name, value := range e.Env {
		if isSecret(name, value) || secrets.Refers(value) {
			return true
		}
	}
	return e.EnvFile != "" || len(e.EnvPass) > 0
}

// keepUnprivileged reverts new_privileges if the directory's files state anything about the same processes, such
// as their command: a project must not choose what runs with privileges.
func (g *guard) keepUnprivileged(path string, privileged *bool) {
	now, key := g.decoder.Positions, path+".new_privileges"
	pos := now[path]
	if !*privileged || pos == g.positions[path] {
		return
	}
	*privileged = false
	if now[key] != g.positions[key] {
		pos = now[key]
	}
	g.report.Warn(pos, "state both in the user's file, or in one of --config FILE",
		"%s: ignored, because a project's file can neither set it nor state anything else of %s", key, path)
	g.restore(key)
}

// keepValue reverts a key with undo, and warns, unless same is true: the directory's files have not loosened its value.
func (g *guard) keepValue(path string, same bool, undo func()) {
	if !same {
		undo()
		g.kept(path)
	}
}

// inUsersFile is the hint for a key that a project's file cannot state.
const inUsersFile = "state it in the user's file, or in one of --config FILE"

// ignored warns that the directory's files cannot state path.
func (g *guard) ignored(path, next, that string) {
	pos, _ := g.decoder.Positions.At(path)
	g.report.Warn(pos, next, "%s: ignored, because a project's file cannot %s", path, that)
	g.restore(path)
}

// kept warns that the directory's value of path is ignored.
func (g *guard) kept(path string) {
	pos, _ := g.decoder.Positions.At(path)
	by, _ := g.positions.At(path)
	g.report.Warn(pos, "a project's file can only tighten it; change it there, or with --config FILE",
		"%s: ignored, because it loosens what %s states", path, by)
	g.restore(path)
}

// restore resets the recorded origin of path to the one before the directory's files.
func (g *guard) restore(path string) {
	now := g.decoder.Positions
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

// sameServer reports whether d and other reach the same server, which may then get the headers of both. Other variables
// make a program another server, since NODE_OPTIONS and the like make it load code.
func (d Destination) sameServer(other Destination) bool {
	return d.Type == other.Type && d.URL == other.URL && slices.Equal(d.Command, other.Command) && d.Cwd == other.Cwd &&
		d.SecretsFile == other.SecretsFile &&
		maps.Equal(d.Env, other.Env) && maps.Equal(d.EnvFromHeaders, other.EnvFromHeaders)
}
