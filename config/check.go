package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/strict"
	"github.com/exthost/exthost/manifest"
)

func (l *loader) checkExtensions(e *Extensions) {
	for i, path := range e.SearchPaths {
		if path == "" {
			l.fail(strict.Index("extensions.search_paths", i), "", "a path is needed")
		}
	}
	for i, name := range e.IgnoreDirs {
		if name == "" || strings.ContainsAny(name, `/\*?[`) {
			l.fail(strict.Index("extensions.ignore_dirs", i), "such as node_modules", "%q is not a base name", name)
		}
	}
	l.checkIDs("extensions.disabled", e.Disabled)
	l.checkIDs("extensions.allowlist", e.Allowlist)
	l.checkNames("extensions.env.pass", e.Env.Pass)
	l.checkRuntime("extensions.defaults", e.Defaults)
	for _, id := range slices.Sorted(maps.Keys(e.Entries)) {
		path, entry := strict.Join("extensions.entries", id), e.Entries[id]
		if err := validateFullID(id); err != nil {
			l.fail(path, "", "%v", err)
		}
		l.checkNames(path+".env", slices.Sorted(maps.Keys(entry.Env)))
		l.checkNames(path+".env_deny", entry.EnvDeny)
		l.checkRuntime(path+".runtime", entry.Runtime)
	}
}

func (l *loader) checkRuntime(path string, r manifest.Runtime) {
	for _, p := range r.Validate() {
		l.failIn(path, p)
	}
}

func (l *loader) checkIDs(path string, ids []string) {
	for i, id := range ids {
		if err := validateFullID(id); err != nil {
			l.fail(strict.Index(path, i), "", "%v", err)
		}
	}
}

var serverName = regexp.MustCompile(`^[a-z0-9_-]+$`)

// validateFullID accepts an extension's id, and OWNER.SERVER for a server of a
// sidecar.
func validateFullID(id string) error {
	owner, server, sidecar := strings.Cut(id, ".")
	if err := manifest.ValidateID(owner); err != nil {
		return err
	}
	if sidecar && !serverName.MatchString(server) {
		return fmt.Errorf("%q is not the name of a server of %q: it has a-z, 0-9, _ and -", server, owner)
	}
	return nil
}

// checkNames checks names of environment variables.
func (l *loader) checkNames(path string, names []string) {
	for _, name := range names {
		if strings.TrimSpace(name) == "" || strings.ContainsAny(name, "=\x00") {
			l.fail(path, "", "%q is not a variable's name", name)
		}
	}
}

func (l *loader) checkServer(s *Server) {
	if problem := badListen(s.Listen); problem != "" {
		l.fail("server.listen", "such as 127.0.0.1:7800", "%q %s", s.Listen, problem)
	}
	l.checkAuth(s.Auth)
	switch {
	case s.TLS.Cert == "" && s.TLS.Key != "":
		l.fail("server.tls.key", "", "a key needs its cert")
	case s.TLS.Cert != "" && s.TLS.Key == "":
		l.fail("server.tls.cert", "", "a cert needs its key")
	}
	for i, origin := range s.AllowedOrigins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			l.fail(strict.Index("server.allowed_origins", i), "such as https://example.com", "%q is not an origin", origin)
		}
	}
	for i, host := range s.AllowedHosts {
		if host == "" || strings.ContainsAny(host, "/ \t*") {
			l.fail(strict.Index("server.allowed_hosts", i), "such as example.com or example.com:8443", "%q is not a host", host)
		}
	}
}

func (l *loader) checkAuth(a Auth) {
	var stated []string
	for _, way := range []struct{ key, value string }{{"token", a.Token}, {"token_env", a.TokenEnv}, {"token_file", a.TokenFile}} {
		if way.value != "" {
			stated = append(stated, way.key)
		}
	}
	if len(stated) > 1 {
		l.fail("server.auth."+stated[1], "keep one of them", "%s exclude each other", strings.Join(stated, " and "))
	}
	l.checkOAuth(a.OAuth)
}

func (l *loader) checkOAuth(o OAuth) {
	const path = "server.auth.oauth"
	if reflect.ValueOf(o).IsZero() {
		return
	}
	for _, u := range []struct{ key, value string }{{"issuer", o.Issuer}, {"resource", o.Resource}, {"jwks_url", o.JWKSURL}} {
		at := path + "." + u.key
		if u.value == "" && u.key == "jwks_url" {
			continue
		}
		if u.value == "" {
			l.fail(path, "", "%s is needed", u.key)
			continue
		}
		p, err := url.Parse(u.value)
		if err != nil || p.Host == "" || p.Scheme != "https" && !(p.Scheme == "http" && isLoopback(p.Hostname())) || p.Fragment != "" || p.User != nil {
			l.fail(at, "such as https://auth.example.com", "%q is not an https address", u.value)
		}
	}
}

// isLoopback reports whether host is this machine, which needs no TLS.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// badListen returns the error in a host:port, "" for none.
func badListen(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "is not host:port"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "has no port from 0 to 65535"
	} else if strconv.FormatUint(n, 10) != port {
		return "has a port written in an odd way"
	}
	if strings.ContainsAny(host, "/ \t@") {
		return "has no usable host"
	}
	return ""
}

func (l *loader) finishDestination(name string, d *Destination) {
	path := strict.Join("destinations", name)
	if err := manifest.ValidateID(name); err != nil {
		l.fail(path, "", "%v", err)
	}
	if _, taken := l.cfg.Extensions.Entries[name]; taken {
		l.fail(path, "choose another name", "extensions.entries has the id %q as well", name)
	}
	if d.Type == "" {
		d.Type = DestinationSSE
		if _, command := l.decoder.Positions[path+".command"]; command && d.URL == "" {
			d.Type = DestinationStdio
		}
	}
	if d.StartTimeout == 0 {
		l.fail(path+".start_timeout", "", "without a limit a destination that hangs would never be given up")
	}
	if d.Type == DestinationStdio {
		l.checkStdioDestination(path, d)
		return
	}
	l.only(path, "type stdio", map[string]bool{"command": d.Command != nil, "env": d.Env != nil, "cwd": d.Cwd != "",
		"env_from_headers": d.EnvFromHeaders != nil, "secrets_file": d.SecretsFile != "", "port": d.Port != 0,
		"instances": d.Instances != manifest.InstancesPerSession})
	l.checkURL(path+".url", d.URL)
	for header := range d.Headers {
		if !headerName.MatchString(header) {
			l.fail(strict.Join(path+".headers", header), "", "%q is not a header's name", header)
		}
	}
	d.Instances = ""
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func (l *loader) checkStdioDestination(path string, d *Destination) {
	l.only(path, "type sse and http", map[string]bool{"url": d.URL != "", "headers": d.Headers != nil})
	if len(d.Command) == 0 || strings.TrimSpace(d.Command[0]) == "" {
		l.fail(path+".command", `such as ["npx", "-y", "a-server"]`, "type stdio needs a command")
	}
	l.checkNames(path+".env", slices.Sorted(maps.Keys(d.Env)))
	for header, name := range d.EnvFromHeaders {
		at := strict.Join(path+".env_from_headers", header)
		if !headerName.MatchString(header) {
			l.fail(at, "", "%q is not a header's name", header)
		}
		if slices.Contains([]string{"authorization", "cookie", "proxy-authorization"}, strings.ToLower(header)) {
			l.fail(at, "have clients send it in a header of its own, such as X-Api-Key", "%s is between the client and this host, and is never passed on", header)
		}
		l.checkNames(at, []string{name})
	}
	if len(d.EnvFromHeaders) > 0 && !d.Instances.PerSession() {
		l.fail(path+".env_from_headers", `keep instances: per_session`, "one process cannot have the variables of several clients")
	}
	d.Cwd = l.settle(path, d.Cwd, d.Command)
}

// only reports the stated fields that belong to another type.
func (l *loader) only(path, kind string, stated map[string]bool) {
	for _, field := range slices.Sorted(maps.Keys(stated)) {
		if stated[field] {
			l.fail(path+"."+field, "", "only for %s", kind)
		}
	}
}

func (l *loader) checkURL(path, raw string) {
	if strings.Contains(raw, "${") {
		return // unknown until the destination's secrets are read
	}
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		l.fail(path, "such as https://example.com/sse; or a command for type stdio", "a url is needed")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		l.fail(path, "such as https://example.com/sse", "not an http or https address")
	}
}
