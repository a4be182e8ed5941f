package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
)

var serverName = regexp.MustCompile(`^[a-z0-9_-]+$`)

// checkFullID accepts the id of an extension, the name of a plugin, and OWNER.SERVER for a server of either. A reserved
// name is no id of its own.
func checkFullID(id string) error {
	owner, isServer := manifest.OwnerOf(id)
	plugin := agentplugin.ValidateName(owner) == nil && (isServer || !slices.Contains(manifest.ReservedIDs(), owner))
	if err := manifest.ValidateID(owner); err != nil && !plugin {
		return err
	}
	server := strings.TrimPrefix(id, owner+".")
	if isServer && !serverName.MatchString(server) {
		return fmt.Errorf("%q is not the name of a server of %q: it has a-z, 0-9, _ and -", server, owner)
	}
	return nil
}

// checkDisabled accepts what [checkFullID] accepts, and a server of a plugin as its mcp.json names it.
func checkDisabled(id string) error {
	if owner, server, ok := strings.Cut(id, "."); ok && server != "" && agentplugin.ValidateName(owner) == nil {
		return nil
	}
	return checkFullID(id)
}

// badListen returns the error in host:port, or "".
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

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// isHeader reports whether name is a valid header name.
func isHeader(name string) bool { return headerName.MatchString(name) }

// badURL returns the error in a server's address and a hint, or "".
func badURL(raw string) (problem, hint string) {
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

// against returns path, if it is relative, as an absolute path from dir. "" stays "".
func against(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
