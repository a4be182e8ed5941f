package config

import (
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/recording/faults"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
)

func (f *finisher) checkExtensions(e *Extensions) {
	for i, path := range e.SearchPaths {
		if path == "" {
			f.fail(strict.Index("extensions.search_paths", i), "", "a path is needed")
		}
	}
	for i, name := range e.IgnoreDirs {
		if name == "" || strings.ContainsAny(name, `/\*?[`) {
			f.fail(strict.Index("extensions.ignore_dirs", i), "such as node_modules", "%q is not a base name", name)
		}
	}
	f.checkIDs("extensions.disabled", e.Disabled, checkDisabled)
	f.checkIDs("extensions.allowlist", e.Allowlist, checkFullID)
	f.checkNames("extensions.env.pass", e.Env.Pass)
	f.checkRuntime("extensions.defaults", e.Defaults)
	for _, id := range slices.Sorted(maps.Keys(e.Entries)) {
		path, entry := strict.Join("extensions.entries", id), e.Entries[id]
		if err := checkFullID(id); err != nil {
			f.fail(path, "", "%v", err)
		}
		f.checkNames(path+".env", slices.Sorted(maps.Keys(entry.Env)))
		f.checkNames(path+".env_deny", entry.EnvDeny)
		f.checkRuntime(path+".runtime", entry.Runtime)
		for _, p := range entry.Sandbox.Validate() {
			f.failIn(path+".sandbox", manifest.Problem(p))
		}
	}
}

func (f *finisher) checkToolsets() {
	for _, p := range slices.Concat(toolset.Check(f.cfg.Toolsets, f.cfg.Server.toolsets()), f.cfg.Tools.Check()) {
		f.fail(p.Key, p.Hint, "%s", p.Message)
	}
}

func (f *finisher) checkInjected() {
	for _, p := range faults.Check(f.cfg.Inject) {
		f.fail(strings.TrimSuffix(strict.Index("inject", p.Rule)+"."+p.Field, "."), p.Hint, "%s", p.Message)
	}
}

func (f *finisher) checkRuntime(path string, r manifest.Runtime) {
	for _, p := range r.Validate() {
		f.failIn(path, p)
	}
}

func (f *finisher) checkIDs(path string, ids []string, check func(id string) error) {
	for i, id := range ids {
		if err := check(id); err != nil {
			f.fail(strict.Index(path, i), "", "%v", err)
		}
	}
}

// checkNames checks names of environment variables.
func (f *finisher) checkNames(path string, names []string) {
	for _, name := range names {
		if strings.TrimSpace(name) == "" || strings.ContainsAny(name, "=\x00") {
			f.fail(path, "", "%q is not a variable's name", name)
		}
	}
}

func (f *finisher) checkServer(s *Server) {
	if problem := badListen(s.Listen); problem != "" {
		f.fail("server.listen", "such as 127.0.0.1:7800", "%q %s", s.Listen, problem)
	}
	f.checkAuth(s.Auth)
	f.checkClients(s.Clients)
	switch {
	case s.TLS.Cert == "" && s.TLS.Key != "":
		f.fail("server.tls.key", "", "a key needs its cert")
	case s.TLS.Cert != "" && s.TLS.Key == "":
		f.fail("server.tls.cert", "", "a cert needs its key")
	}
	for i, origin := range s.AllowedOrigins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			f.fail(strict.Index("server.allowed_origins", i), "such as https://example.com", "%q is not an origin",
				origin)
		}
	}
	for i, host := range s.AllowedHosts {
		if host == "" || strings.ContainsAny(host, "/ \t*") {
			f.fail(strict.Index("server.allowed_hosts", i), "such as example.com or example.com:8443",
				"%q is not a host", host)
		}
	}
}

// maxHeaders bounds the headers that policies get besides Authorization.
const maxHeaders = 16

func (f *finisher) checkHeaders(names []string) {
	if len(names) > maxHeaders {
		f.fail("governance.headers", "", "%d headers are more than %d", len(names), maxHeaders)
	}
	for i, name := range names {
		if !isHeader(name) {
			f.fail(strict.Index("governance.headers", i), "such as X-Api-Key", "%q is not a header's name", name)
		}
	}
}

func (f *finisher) checkAuth(a Auth) {
	var stated []string
	for _, way := range []struct{ key, value string }{
		{"token", a.Token},
		{"token_env", a.TokenEnv},
		{"token_file", a.TokenFile},
	} {
		if way.value != "" {
			stated = append(stated, way.key)
		}
	}
	if len(stated) > 1 {
		f.fail("server.auth."+stated[1], "keep one of them", "%s exclude each other", strings.Join(stated, " and "))
	}
	f.checkOAuth(a.OAuth)
}

func (f *finisher) checkOAuth(o OAuth) {
	const path = "server.auth.oauth"
	if reflect.ValueOf(o).IsZero() {
		return
	}
	for _, u := range []struct{ key, value string }{
		{"issuer", o.Issuer},
		{"resource", o.Resource},
		{"jwks_url", o.JWKSURL},
	} {
		switch p, err := url.Parse(u.value); {
		case u.value == "" && u.key == "jwks_url":
		case u.value == "":
			f.fail(path, "", "%s is needed", u.key)
		case err != nil || p.Host == "" ||
			p.Scheme != "https" && !(p.Scheme == "http" && isLocal(p.Hostname())) || p.Fragment != "" ||
			p.User != nil:
			f.fail(path+"."+u.key, "such as https://auth.example.com", "%q is not an https address", u.value)
		}
	}
}

func (f *finisher) finishDestination(name string, d *Destination) {
	path := strict.Join("destinations", name)
	if err := manifest.ValidateID(name); err != nil {
		f.fail(path, "", "%v", err)
	}
	if _, taken := f.cfg.Extensions.Entries[name]; taken {
		f.fail(path, "choose another name", "extensions.entries has the id %q as well", name)
	}
	if d.Type == "" {
		d.Type = DestinationSSE
		if _, command := f.decoder.Positions[path+".command"]; command && d.URL == "" {
			d.Type = DestinationStdio
		}
	}
	if d.StartTimeout == 0 {
		f.fail(path+".start_timeout", "", "without a limit a destination that hangs would never be given up")
	}
	if d.Type == DestinationStdio {
		f.checkStdioDestination(path, d)
		return
	}
	f.only(path, "type stdio", map[string]bool{"command": d.Command != nil, "env": d.Env != nil, "cwd": d.Cwd != "",
		"env_from_headers": d.EnvFromHeaders != nil, "secrets_file": d.SecretsFile != "", "port": d.Port != 0,
		"instances": d.Instances != manifest.InstancesPerSession, "new_privileges": d.NewPrivileges})
	f.checkURL(path+".url", d.URL)
	for header := range d.Headers {
		if !isHeader(header) {
			f.fail(strict.Join(path+".headers", header), "", "%q is not a header's name", header)
		}
	}
	if !(&manifest.Transport{URL: d.URL, Headers: d.Headers}).SignsIn() {
		f.only(path, "servers without a header Authorization",
			map[string]bool{"credentials": d.Credentials == CredentialsPerCaller, "oauth": d.OAuth != nil})
	}
	for _, p := range d.OAuth.Validate() {
		f.failIn(path+".oauth", p)
	}
	d.Instances = ""
}

func (f *finisher) checkStdioDestination(path string, d *Destination) {
	f.only(path, "type sse and http",
		map[string]bool{
			"url":         d.URL != "",
			"headers":     d.Headers != nil,
			"oauth":       d.OAuth != nil,
			"credentials": d.Credentials != "",
		})
	if len(d.Command) == 0 || strings.TrimSpace(d.Command[0]) == "" {
		f.fail(path+".command", `such as ["npx", "-y", "a-server"]`, "type stdio needs a command")
	}
	f.checkNames(path+".env", slices.Sorted(maps.Keys(d.Env)))
	for header, name := range d.EnvFromHeaders {
		at := strict.Join(path+".env_from_headers", header)
		if !isHeader(header) {
			f.fail(at, "", "%q is not a header's name", header)
		}
		if slices.Contains([]string{"authorization", "cookie", "proxy-authorization"}, strings.ToLower(header)) {
			f.fail(at, "have clients send it in a header of its own, such as X-Api-Key",
				"%s is between the client and this host, and is never passed on", header)
		}
		f.checkNames(at, []string{name})
	}
	if len(d.EnvFromHeaders) > 0 && !d.Instances.PerSession() {
		f.fail(path+".env_from_headers", `keep instances: per_session`,
			"one process cannot have the variables of several clients")
	}
	d.Cwd = f.settle(path, d.Cwd, d.Command)
	if d.SecretsFile == "" {
		d.SecretsFile = f.secretsBeside(f.decoder.Positions[path])
	}
}

// only reports each stated field as being only for kind.
func (f *finisher) only(path, kind string, stated map[string]bool) {
	for _, field := range slices.Sorted(maps.Keys(stated)) {
		if stated[field] {
			f.fail(path+"."+field, "", "only for %s", kind)
		}
	}
}

func (f *finisher) checkURL(path, raw string) {
	if problem, hint := badURL(raw); problem != "" {
		f.fail(path, hint, "%s", problem)
	}
}
