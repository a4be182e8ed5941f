package cluster

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Nobody is reserved: it takes the place of a node's name in subjects that the NATS server answers itself.
const Nobody = "nobody"

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// CheckName returns the error in the name of a node or cluster.
func CheckName(name string) error {
	if name == Nobody || !nameForm.MatchString(name) {
		return fmt.Errorf("%q is no name of a node or a cluster: 1 to 32 of a-z, 0-9 and -, which is neither first "+
			"nor last, and not %s", name, Nobody)
	}
	return nil
}

// NodeOfHost returns a node name for this machine: the host name up to the first dot, in lower case, invalid
// characters replaced by -; "" if nothing is left.
func NodeOfHost() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	return nodeOf(host)
}

func nodeOf(host string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, host)
	name = strings.Trim(name[:min(len(name), 32)], "-")
	if CheckName(name) != nil {
		return ""
	}
	return name
}
