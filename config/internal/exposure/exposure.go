// Package exposure finds secrets of a configuration that others can read, in files or on the network.
package exposure

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file/ownership"
	"github.com/exthost/exthost/internal/text/strict"
)

// File is a file with secrets that the configuration names.
type File struct {
	Key  string // that states the path
	Path string // "" or with a variable: not checked
	Own  bool   // holds the host's own token
}

// Problem is a secret that others can read.
type Problem struct {
	Key     string
	Message string
	Hint    string // what to do
	Refused bool   // an error; false: a warning
}

// Files returns the problems of files that others may read, sorted by key; missing files are skipped. The file of
// the host's own token is an error, as for ssh keys, since the token gives access to every tool. For other files
// it is a warning: most variables in them are no secrets, and version control and deployment tools choose the
// modes.
func Files(owners ownership.Rule, files []File) (list []Problem) {
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Key, b.Key) })
	for _, f := range files {
		if f.Path == "" || strings.Contains(f.Path, "${") {
			continue
		}
		refused := owners.Readable(f.Path)
		if f.Own {
			refused = owners.Secret(f.Path)
		}
		if refused != nil {
			list = append(list,
				Problem{
					Key:     f.Key,
					Message: fmt.Sprintf("%s: %s: %s", f.Key, refused.Path, refused.Message),
					Hint:    refused.Hint,
					Refused: f.Own,
				})
		}
	}
	return list
}

// Local reports whether host is this machine, so that traffic needs no TLS.
func Local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Report adds the problems as errors or warnings at the positions of their keys.
func Report(r *strict.Report, positions strict.Positions, problems []Problem) {
	for _, p := range problems {
		add := r.Warn
		if p.Refused {
			add = r.Add
		}
		pos, _ := positions.At(p.Key)
		add(pos, p.Hint, "%s", p.Message)
	}
}

// Network returns the problem of a server that takes tokens at the address listen without TLS. Addresses of this
// machine and "" have none.
func Network(listen string) []Problem {
	host, _, err := net.SplitHostPort(listen)
	if err != nil || Local(host) {
		return nil
	}
	return []Problem{{Key: "server.listen", Hint: "state server.tls, or let a proxy with TLS connect to 127.0.0.1",
		Message: fmt.Sprintf("server.listen: %s serves other machines without TLS, so who is on the way reads the "+
			"tokens of its clients and their calls", listen)}}
}
