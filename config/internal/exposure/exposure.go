// Package exposure tells which secrets of a configuration others can read: in files, and on the
// network.
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

// File is a file with secrets that a configuration names.
type File struct {
	Key  string // that names it
	Path string // "" or with a variable: not looked at
	Own  bool   // holds the host's own token
}

// Problem is a secret that others can read.
type Problem struct {
	Key     string
	Message string
	Hint    string // how to go on
	Refused bool   // it must not be used; else it is a warning
}

// Files returns the files that others may read, sorted by their keys. One that does not exist is
// its reader's. The file of the host's own token is refused, as ssh refuses keys that others may
// read: whoever has it may call every tool. Others are a warning, because most of what files of
// variables hold is no secret, and version control and deployment tools write them with their
// own modes.
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

// Local reports whether host is this machine, which needs no TLS.
func Local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Report adds problems to a report, as errors or warnings at the places of their keys.
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

// Network returns the problem of a server that takes tokens at an address without TLS; none
// for an address of this machine, or "".
func Network(listen string) []Problem {
	host, _, err := net.SplitHostPort(listen)
	if err != nil || Local(host) {
		return nil
	}
	return []Problem{{Key: "server.listen", Hint: "state server.tls, or let a proxy with TLS connect to 127.0.0.1",
		Message: fmt.Sprintf("server.listen: %s serves other machines without TLS, so who is on the way reads the "+
			"tokens of its clients and their calls", listen)}}
}
