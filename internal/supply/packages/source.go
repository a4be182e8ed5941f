package packages

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/supply/store"
	"github.com/exthost/exthost/manifest"
)

// Kind is the kind of a source.
type Kind string

const (
	NPM      Kind = "npm"      // a package in npm's registry
	PyPI     Kind = "pypi"     // a package in a Python package index
	Git      Kind = "git"      // a commit in a git repository
	Bundle   Kind = "mcpb"     // a zip or tar.gz file: an MCP bundle, or what a folder may be
	Folder   Kind = "folder"   // a folder with a plugin.json, a package.json or a manifest.json
	Registry Kind = "registry" // a server in the MCP registry, which refers to a package
)

// Source identifies a package to add.
type Source struct {
	Kind    Kind
	Name    string // package, server, repository URL or path
	Version string // version, npm range or git reference; "" for the newest
	// program of the package, plugin of its marketplace, or ./FOLDER in it; "" for its only program or plugin, or the
	// program with its name
	Program string
}

// Forms lists the syntax of sources, for messages.
const Forms = "npm:NAME[@RANGE], pypi:NAME[==VERSION], git+https://HOST/REPOSITORY@COMMIT, FILE.mcpb, FILE.zip, " +
	"FILE.tar.gz, ./FOLDER or registry:SERVER; of a list of plugins SOURCE#NAME"

var (
	npmName   = regexp.MustCompile(`^(@[A-Za-z0-9~_-][A-Za-z0-9._~-]*/)?[A-Za-z0-9~_-][A-Za-z0-9._~-]*$`)
	npmRange  = regexp.MustCompile(`^[0-9A-Za-z.^~<>=|*+ -]+$`)
	pypiName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	pypiVer   = regexp.MustCompile(`^[0-9A-Za-z.!+_-]+$`)
	gitRef    = regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z._/-]*$`)
	server    = regexp.MustCompile(`^[A-Za-z0-9.-]+/[A-Za-z0-9._-]+$`)
	serverVer = regexp.MustCompile(`^[0-9A-Za-z.+-]+$`)
)

// Bounds of names and versions, in characters. As counts in the patterns they would slow down every start of the
// program.
const (
	maxName    = 214 // npm's limit
	maxVersion = 200
)

func isVersion(form *regexp.Regexp, version string) bool {
	return len(version) <= maxVersion && form.MatchString(version)
}

// Parse parses a source in one of the [Forms].
func Parse(text string) (Source, error) {
	whole, program, chosen := strings.Cut(text, "#")
	if _, err := os.Stat(text); chosen && err != nil {
		s, err := Parse(whole)
		if s.Program = program; err == nil && (program == "" || s.Kind != Git && s.Kind != Bundle && s.Kind != Folder) {
			err = fmt.Errorf("%q: a #NAME is that of a plugin in a repository, a folder or an archive", text)
		}
		return s, err
	}
	kind, rest, _ := strings.Cut(text, ":")
	switch {
	case kind == "npm":
		return parseNPM(text, rest)
	case kind == "pypi":
		return parsePyPI(text, rest)
	case kind == "registry":
		return parseRegistry(text, rest)
	case strings.HasPrefix(kind, "git+"):
		return parseGit(text)
	case strings.HasPrefix(rest, "//") || strings.HasPrefix(text, "-"):
		return Source{}, fmt.Errorf("%q is no source: %s", text, Forms)
	}
	return parsePath(text)
}

// archives are the forms of files that are a [Bundle], by the ending of their names.
var archives = map[string]store.Form{
	".mcpb":   store.Zip,
	".dxt":    store.Zip,
	".zip":    store.Zip,
	".tgz":    store.TarGz,
	".tar.gz": store.TarGz,
}

// endingOf returns the ending of an archive's name, "" for other names.
func endingOf(name string) string {
	for ending := range archives {
		if strings.HasSuffix(name, ending) {
			return ending
		}
	}
	return ""
}

func parsePyPI(text, rest string) (Source, error) {
	name, version, stated := strings.Cut(rest, "==")
	if !pypiName.MatchString(name) || len(name) > maxName || stated && !isVersion(pypiVer, version) {
		return Source{}, fmt.Errorf("%q is no package: pypi:NAME or pypi:NAME==VERSION", text)
	}
	return Source{Kind: PyPI, Name: name, Version: version}, nil
}

func parseRegistry(text, rest string) (Source, error) {
	name, version, stated := strings.Cut(rest, "@")
	if !server.MatchString(name) || len(name) > maxName || stated && !isVersion(serverVer, version) {
		return Source{}, fmt.Errorf("%q is no server: registry:io.github.OWNER/NAME", text)
	}
	return Source{Kind: Registry, Name: name, Version: version}, nil
}

func parsePath(text string) (Source, error) {
	info, err := os.Stat(text)
	switch {
	case err != nil:
		return Source{}, fmt.Errorf("%q is no source, and no file or folder: %s", text, Forms)
	case info.IsDir():
		return Source{Kind: Folder, Name: filepath.Clean(text)}, nil
	case endingOf(text) != "":
		return Source{Kind: Bundle, Name: filepath.Clean(text)}, nil
	}
	return Source{}, fmt.Errorf("%q is neither a folder nor an archive: .mcpb, .zip or .tar.gz", text)
}

func parseNPM(text, rest string) (Source, error) {
	s := Source{Kind: NPM, Name: rest}
	if at := strings.LastIndexByte(rest, '@'); at > 0 {
		s.Name, s.Version = rest[:at], rest[at+1:]
		if !isVersion(npmRange, s.Version) { // refuses file:, URLs and aliases
			return s, fmt.Errorf("%q has no version that npm's registry could have: npm:NAME@RANGE", text)
		}
	}
	if !npmName.MatchString(s.Name) || len(s.Name) > maxName {
		return s, fmt.Errorf("%q is no package: npm:NAME or npm:@SCOPE/NAME, with @RANGE", text)
	}
	return s, nil
}

// parseGit parses git+https://host/path@ref. It refuses what git would treat as an option or a command.
func parseGit(text string) (Source, error) {
	address := strings.TrimPrefix(text, "git+")
	at := strings.LastIndexByte(address, '@')
	if at < 0 || strings.Contains(address[at:], ":") {
		return Source{}, fmt.Errorf("%q names no commit or tag: git+https://HOST/REPOSITORY@COMMIT", text)
	}
	s := Source{Kind: Git, Name: address[:at], Version: address[at+1:]}
	u, err := url.Parse(s.Name)
	switch {
	case err != nil || u.Host == "" || u.Path == "" || strings.HasPrefix(u.Host, "-") || u.RawQuery != "" ||
		u.Fragment != "":
		return s, fmt.Errorf("%q is no address of a repository", s.Name)
	case u.Scheme != "https" && u.Scheme != "http":
		return s, fmt.Errorf("git is asked over https alone, and %q is %s", s.Name, u.Scheme)
	case u.User != nil:
		return s, fmt.Errorf("the address at %s has a user or a password, which would be written into files", u.Host)
	case !isVersion(gitRef, s.Version) || strings.Contains(s.Version, ".."):
		return s, fmt.Errorf("%q is no commit and no tag", s.Version)
	}
	return s, nil
}

// String returns the source in the syntax of [Parse], which has no Program.
func (s Source) String() string {
	version := ""
	if s.Version != "" {
		version = "@" + s.Version
	}
	switch s.Kind {
	case PyPI:
		if s.Version != "" {
			version = "==" + s.Version
		}
		return "pypi:" + s.Name + version
	case Git:
		return "git+" + s.Name + version
	case Bundle, Folder:
		return filepath.ToSlash(s.Name)
	}
	return string(s.Kind) + ":" + s.Name + version
}

// ID derives an extension id from the name, or from its scope or owner if the id would be reserved.
func (s Source) ID() string {
	at := s.Name
	if abs, err := filepath.Abs(at); err == nil && s.Kind == Folder { // which may be written as .
		at = abs
	}
	name := strings.TrimSuffix(strings.ToLower(filepath.ToSlash(at)), ".git")
	if s.Kind == Bundle {
		name = strings.TrimSuffix(name, endingOf(name))
	}
	owner, name := splitOwner(name)
	for _, word := range []string{"mcp-server-", "server-", "mcp-"} {
		if short := strings.TrimPrefix(name, word); short != name && manifest.ValidateID(short) == nil {
			name = short
			break
		}
	}
	for _, word := range []string{"-mcp-server", "-mcp", "-server"} {
		if short := strings.TrimSuffix(name, word); short != name && manifest.ValidateID(short) == nil {
			name = short
			break
		}
	}
	if slices.Contains(manifest.ReservedIDs(), name) && owner != "" {
		name = owner
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, name)
}

// splitOwner returns the last element of a name, and the one before it without the characters of a scope: @stripe and
// io.github.stripe are stripe.
func splitOwner(name string) (owner, last string) {
	n := strings.LastIndexByte(name, '/')
	if n < 0 {
		return "", name
	}
	owner = strings.TrimPrefix(name[:n], "@")
	return owner[strings.LastIndexAny(owner, "/.")+1:], name[n+1:]
}
