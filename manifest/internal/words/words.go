// Package words judges single words of a manifest: addresses, and names of programs and of
// platforms.
package words

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost/internal/strict"
)

// The platforms of the Go toolchain that could run a host.
var (
	OS   = []string{"aix", "android", "darwin", "dragonfly", "freebsd", "illumos", "ios", "linux", "netbsd", "openbsd", "plan9", "solaris", "windows"}
	Arch = []string{"386", "amd64", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64", "ppc64le", "riscv64", "s390x"}
)

// commonNames are other names of some of these.
var commonNames = map[string]string{"macos": "darwin", "osx": "darwin", "mac": "darwin", "win32": "windows", "win": "windows",
	"x86_64": "amd64", "x64": "amd64", "aarch64": "arm64", "i386": "386", "x86": "386"}

// Platform returns a hint at which of known a name stands for, "" for none.
func Platform(name string, known []string) string {
	if common, ok := commonNames[strings.ToLower(name)]; ok {
		return fmt.Sprintf("did you mean %q?", common)
	}
	return strict.DidYouMean(name, known)
}

// BadURL returns the error in an http url, "" for none. A url with ${VAR} cannot be
// checked before the variable is known.
func BadURL(raw string) string {
	if strings.Contains(raw, "${") {
		return ""
	}
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return "a url is needed, such as https://example.com/mcp"
	case err != nil:
		return fmt.Sprintf("%q is not a url", raw)
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Sprintf("%q is not an http or https url", raw)
	case u.Hostname() == "":
		return fmt.Sprintf("%q names no host", raw)
	case u.Fragment != "":
		return fmt.Sprintf("%q has a fragment, which no server sees", raw)
	}
	return ""
}

// packageRoot begins a command that is a program of the package that an extension runs.
const packageRoot = "${EXTHOST_PACKAGE}/"

// BadProgram returns why a word cannot name a program, "" if it can. packaged says that it may be
// one of the extension's package.
func BadProgram(name string, packaged bool) string {
	if program, ok := strings.CutPrefix(name, packageRoot); ok && packaged {
		if !filepath.IsLocal(filepath.FromSlash(program)) {
			return "it is outside the package"
		}
		name = program
	}
	switch {
	case strings.TrimSpace(name) == "":
		return "it is empty"
	case strings.HasPrefix(name, "-"):
		return "a program's name does not begin with -"
	case strings.ContainsRune(name, 0):
		return "it has a NUL character"
	case strings.Contains(name, "${"):
		return "variables are for arguments, env and headers: a program has a fixed name"
	}
	return ""
}
