package config

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/strict"
)

// secretFile is a file with secrets that the configuration names.
type secretFile struct {
	key  string // the key that states the path
	path string // "" or with a variable: not checked
	own  bool   // holds the host's own token
}

// checkSecrets reports secrets that others can read, in files or on the network.
func (f *finisher) checkSecrets() {
	s := f.cfg.Server
	files := []secretFile{
		{key: "server.auth.token_file", path: s.Auth.TokenFile, own: true},
		{key: "server.tls.key", path: s.TLS.Key},
	}
	for id, e := range f.cfg.Extensions.Entries {
		files = append(files, secretFile{key: strict.Join("extensions.entries", id) + ".env_file", path: e.EnvFile})
	}
	for name, d := range f.cfg.Destinations {
		files = append(files, secretFile{key: strict.Join("destinations", name) + ".secrets_file", path: d.SecretsFile})
	}
	slices.SortFunc(files, func(a, b secretFile) int { return cmp.Compare(a.key, b.key) })
	for _, file := range files {
		if file.path != "" && !strings.Contains(file.path, "${") {
			f.checkFile(file)
		}
	}
	if takesTokens := s.Auth.Stated() || len(s.Clients) > 0; takesTokens && s.TLS.Cert == "" {
		f.checkPlaintext(s.Listen)
	}
}

// checkFile reports a file that others may read. The file of the host's own token is an error, as for ssh keys, since
// the token gives access to every tool. For other files it is a warning: most variables in them are no secrets, and
// version control and deployment tools choose the modes.
func (f *finisher) checkFile(file secretFile) {
	check, report := f.owners.Readable, f.report.Warn
	if file.own {
		check, report = f.owners.Secret, f.report.Add
	}
	if refused := check(file.path); refused != nil {
		pos, _ := f.decoder.Positions.At(file.key)
		report(pos, refused.Hint, "%s: %s: %s", file.key, refused.Path, refused.Message)
	}
}

// checkPlaintext warns of a server that takes tokens from other machines without TLS.
func (f *finisher) checkPlaintext(listen string) {
	host, _, err := net.SplitHostPort(listen)
	if err != nil || isLocal(host) {
		return
	}
	pos, _ := f.decoder.Positions.At("server.listen")
	f.report.Warn(pos, "state server.tls, or let a proxy with TLS connect to 127.0.0.1",
		"server.listen: %s serves other machines without TLS, so who is on the way reads the "+
			"tokens of its clients and their calls", listen)
}

// isLocal reports whether host is this machine, so that traffic needs no TLS.
func isLocal(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
