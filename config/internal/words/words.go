// Package words validates single values of a configuration: ids, addresses, names of headers.
package words

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/exthost/exthost/manifest"
)

var serverName = regexp.MustCompile(`^[a-z0-9_-]+$`)

// FullID accepts an extension's id, and OWNER.SERVER for a sidecar server.
func FullID(id string) error {
	owner, server, sidecar := strings.Cut(id, ".")
	if err := manifest.ValidateID(owner); err != nil {
		return err
	}
	if sidecar && !serverName.MatchString(server) {
		return fmt.Errorf("%q is not the name of a server of %q: it has a-z, 0-9, _ and -", server, owner)
	}
	return nil
}

// Listen returns what is wrong with host:port, or "".
func Listen(listen string) string {
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

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// Header reports whether text is a valid header name.
func Header(name string) bool { return headerName.MatchString(name) }

// URL returns what is wrong with a server's address and a hint, or "".
func URL(raw string) (problem, hint string) {
	if strings.Contains(raw, "${") {
		return "", "" // unknown until the destination's secrets are read
	}
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return "a url is needed", "such as https://example.com/sse; or a command for type stdio"
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "not an http or https address", "such as https://example.com/sse"
	}
	return "", ""
}
