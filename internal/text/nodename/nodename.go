// Package nodename says which names the nodes of clusters, and clusters, may have.
package nodename

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Nobody is no node's name: it stands in subjects where the server answers in place of a node.
const Nobody = "nobody"

var pattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// Check says what is wrong with the name of a node or of a cluster.
func Check(name string) error {
	if name == Nobody || !pattern.MatchString(name) {
		return fmt.Errorf("%q is no name of a node or a cluster: 1 to 32 of a-z, 0-9 and -, which is neither first "+
			"nor last, and not %s", name, Nobody)
	}
	return nil
}

// OfHost is the name of this machine as a node: its host name up to the first dot, in lower case
// and with - in place of what a name cannot have; "" when nothing of it is left.
func OfHost() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	return of(host)
}

func of(host string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, host)
	name = strings.Trim(name[:min(len(name), 32)], "-")
	if Check(name) != nil {
		return ""
	}
	return name
}
