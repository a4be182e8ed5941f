package agentplugin

import (
	"errors"
	"io/fs"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// The variables that the host sets for the processes of a plugin.
const (
	RootVariable = "PLUGIN_ROOT"
	DataVariable = "PLUGIN_DATA"
)

const (
	rootPlaceholder = "${" + RootVariable + "}"
	dataPlaceholder = "${" + DataVariable + "}"
)

func (e *entry) stdio(s *manifest.Server) {
	if command, ok := e.text("command", true); ok {
		e.command(command)
		s.Command = command
	}
	e.args(s)
	s.Env = e.texts("env")
	for name, value := range s.Env {
		switch pos := e.node.At("env").Pos; {
		case name == RootVariable || name == DataVariable:
			e.invalid(pos, "9.2", "env states %s, which the host sets", name)
		case name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00"):
			e.invalid(pos, "7.2.1", "env: %q cannot be set in an environment", short(name, 100))
		}
	}
	if cwd, ok := e.text("cwd", false); ok {
		e.cwd(cwd)
		s.Cwd = cwd
	}
}

func (e *entry) args(s *manifest.Server) {
	n := e.node.At("args")
	if n == nil {
		return
	}
	if n.Kind != strict.List {
		e.invalid(n.Pos, "7.2.1", "args is not a list")
		return
	}
	for i, word := range n.Items {
		switch {
		case word.Kind != strict.String:
			e.invalid(word.Pos, "7.2.1", "args[%d] is not a string", i)
		case strings.Contains(word.Text, "\x00"):
			e.invalid(word.Pos, "7.2.1", "args[%d] has a NUL character, which no program can be given", i)
		}
		s.Args = append(s.Args, word.Text)
	}
}

// command checks that a command is one token: a bare name, or a path of the package.
func (e *entry) command(command string) {
	pos := e.node.At("command").Pos
	path, own := strings.CutPrefix(command, "./")
	switch {
	case strings.Contains(command, "\x00"):
		e.invalid(pos, "7.2.1", "command has a NUL character")
	case own:
		e.contained(pos, "command", path)
		if filepath.Clean(filepath.FromSlash(path)) == "." {
			e.invalid(pos, "7.2.1", "command %q names no program", command)
		}
	case strings.ContainsAny(command, `/\`) || command == "." || command == "..":
		e.invalid(pos, "7.2.1", "command %q is neither a bare name nor a path that begins with ./", short(command, 200))
	case strings.ContainsFunc(command, isSpace):
		e.invalid(pos, "7.2.1", "command %q is a whole line: it is one name, and arguments belong into args",
			short(command, 200))
	}
}

func isSpace(r rune) bool { return r <= ' ' }

// cwd checks the form of a working directory, and whether it stays where it begins.
func (e *entry) cwd(cwd string) {
	pos := e.node.At("cwd").Pos
	base, rest, ok := splitCwd(cwd)
	switch {
	case !ok:
		e.invalid(pos, "7.2.1", "cwd %q begins with none of ./, %s and %s", short(cwd, 200), rootPlaceholder,
			dataPlaceholder)
	case strings.Contains(cwd, "\x00"):
		e.invalid(pos, "7.2.1", "cwd has a NUL character")
	case base == dataPlaceholder && !local(rest):
		e.invalid(pos, "4.1", "cwd %q leads out of %s", short(cwd, 200), DataVariable)
	case base == rootPlaceholder:
		e.contained(pos, "cwd", rest)
	}
}

// splitCwd returns the placeholder that a working directory begins with, rootPlaceholder for ./, and the rest.
func splitCwd(cwd string) (base, rest string, ok bool) {
	if rest, ok = strings.CutPrefix(cwd, "./"); ok {
		return rootPlaceholder, rest, true
	}
	for _, base := range []string{rootPlaceholder, dataPlaceholder} {
		if rest, found := strings.CutPrefix(cwd, base); found && (rest == "" || rest[0] == '/') {
			return base, strings.TrimPrefix(rest, "/"), true
		}
	}
	return "", "", false
}

// expandedPaths stands for the placeholders within a path, where nothing is known of them but that they are absolute.
var expandedPaths = strings.NewReplacer(rootPlaceholder, "/x", dataPlaceholder, "/x")

// local reports whether a path does not lead out of where it begins, links aside.
func local(path string) bool {
	return filepath.IsLocal(filepath.Join(".", filepath.FromSlash(expandedPaths.Replace(path))))
}

// contained checks that a path of the package stays in it, links included. It need not exist.
func (e *entry) contained(pos strict.Pos, key, path string) {
	if !local(path) {
		e.invalid(pos, "4.1", "%s leads out of the package", key)
		return
	}
	name := filepath.Join(".", filepath.FromSlash(path))
	if name == "." {
		return
	}
	if _, err := e.resolve(name); errors.Is(err, errOutside) {
		e.invalid(pos, "4.1", "%s leads out of the package", key)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.invalid(pos, "4.1", "%s cannot be examined: %s", key, reason(err))
	}
}

func (e *entry) remote(s *manifest.Server) {
	if address, ok := e.text("url", true); ok {
		if wrong := wrongURL(address); wrong != "" {
			e.invalid(e.node.At("url").Pos, "7.2.1", "%s", wrong)
		}
		s.URL = address
	}
	s.Headers = e.texts("headers")
	if s.Headers != nil {
		e.headers(s.Headers)
	}
}

// wrongURL returns why a URL is not allowed, or "". It does not quote the URL, which may hold a password.
func wrongURL(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil || strings.ContainsFunc(address, isSpace):
		return "url is not a URL"
	case u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "":
		return "url is not an absolute http or https URL"
	case u.User != nil:
		return "url has user information"
	case strings.Contains(address, "#"):
		return "url has a fragment"
	case u.Hostname() == "":
		return "url names no host"
	case !validPort(u.Port()):
		return "url has no valid port"
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return "url is http, which is for localhost and loopback addresses; others need https"
	}
	return ""
}

func validPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

// ownHeaders matches headers that the host generates, and those of the connection. They take precedence, so a package
// states them without effect.
var ownHeaders = regexp.MustCompile(`(?i)^(accept|accept-encoding|connection|content-(length|type)|expect|host|` +
	`keep-alive|last-event-id|mcp-.*|proxy-.*|te|trailer|transfer-encoding|upgrade|user-agent)$`)

// headers checks headers, and removes those that are not sent.
func (e *entry) headers(headers map[string]string) {
	seen := map[string]bool{}
	for _, f := range e.node.At("headers").Fields {
		name, low := f.Key, strings.ToLower(f.Key)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			e.invalid(f.Pos, "7.2.1", "%q is not the name of a header", short(name, 100))
		case !httpguts.ValidHeaderFieldValue(headers[name]):
			e.invalid(f.Pos, "7.2.1", "the header %s has a value that no header can have", short(name, 100))
		case seen[low]:
			e.invalid(f.Pos, "7.2.1", "the header %s is stated twice in different case", short(name, 100))
		case ownHeaders.MatchString(name):
			const text = "the header %s of the server %q is not sent: it is the host's own"
			e.note("7.2.1", text, name, short(e.name, 100))
			e.report.Diagnose(protocol.LevelInfo, manifest.CodeSidecarNote, f.Pos, "", text, name, short(e.name, 100))
			delete(headers, name)
		}
		seen[low] = true
	}
}

// Expand returns a transport with its placeholders replaced: once, in the arguments, the values of variables and the
// working directory. A transport that is not of a package stays as it is.
func Expand(t manifest.Transport, root, data string) manifest.Transport {
	if !t.Literal {
		return t
	}
	paths := strings.NewReplacer(rootPlaceholder, root, dataPlaceholder, data)
	t.Args = slices.Clone(t.Args)
	for i := range t.Args {
		t.Args[i] = paths.Replace(t.Args[i])
	}
	env := make(map[string]string, len(t.Env))
	for name, value := range t.Env {
		env[name] = paths.Replace(value)
	}
	t.Env = env
	base, rest, ok := splitCwd(t.Cwd)
	switch rest = filepath.FromSlash(paths.Replace(rest)); {
	case t.Cwd == "":
		t.Cwd = root
	case ok && base == rootPlaceholder:
		t.Cwd = filepath.Join(root, rest)
	case ok:
		t.Cwd = filepath.Join(data, rest)
	}
	return t
}
