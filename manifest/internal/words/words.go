// Package words reads single words of a manifest: addresses, sizes, and names of programs and of
// platforms.
package words

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/text/strict"
)

// The platforms of the Go toolchain that could run a host.
var (
	OS = []string{"aix", "android", "darwin", "dragonfly", "freebsd", "illumos", "ios", "linux", "netbsd", "openbsd",
		"plan9", "solaris", "windows"}
	Arch = []string{"386", "amd64", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64",
		"ppc64le", "riscv64", "s390x"}
)

// commonNames are other names of some of these.
var commonNames = map[string]string{
	"macos":   "darwin",
	"osx":     "darwin",
	"mac":     "darwin",
	"win32":   "windows",
	"win":     "windows",
	"x86_64":  "amd64",
	"x64":     "amd64",
	"aarch64": "arm64",
	"i386":    "386",
	"x86":     "386",
}

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
	if at := strings.LastIndexByte(raw, '@'); at >= 0 { // what is before may be a password
		raw = "***" + raw[at:]
	}
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

// ErrSize is in the error of a word that is no size.
var ErrSize = errors.New(`want a size such as "512MiB" or a whole number of bytes`)

// units are powers of two.
var units = map[string]int{
	"":    0,
	"b":   0,
	"k":   10,
	"kb":  10,
	"kib": 10,
	"m":   20,
	"mb":  20,
	"mib": 20,
	"g":   30,
	"gb":  30,
	"gib": 30,
}

// Size reads a number of bytes, such as "512MiB" or "1024".
func Size(s string) (int64, error) {
	digits := strings.TrimRight(s, "kKmMgGiIbB ")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift, ok := units[strings.ToLower(strings.TrimSpace(s[len(digits):]))]
	if err != nil || n < 0 || !ok {
		return 0, fmt.Errorf("%q is not a size: %w", s, ErrSize)
	}
	if n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is more than a size can hold", s)
	}
	return n << shift, nil
}

// BadServer returns the error in the address of a NATS server, "" for none, as for no address.
func BadServer(raw string) string {
	if raw == "" || strings.Contains(raw, "secret://") {
		return ""
	}
	if strings.Contains(raw, "@") { // before anything is quoted
		return "it has a user or a password: state token_env or token_file"
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || u.Port() == "" ||
		u.Path+u.RawQuery+u.Fragment != "" {
		return fmt.Sprintf("%q is no address of a NATS server, such as tls://nats.example:4222", strings.TrimSpace(raw))
	}
	return ""
}

// maxSubject bounds the prefix of a subject, in bytes.
const maxSubject = 128

var subject = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// BadSubject returns why a word cannot begin the subject of a service on NATS, "" if it can.
func BadSubject(prefix string) string {
	first, _, _ := strings.Cut(prefix, ".")
	switch {
	case len(prefix) > maxSubject || !subject.MatchString(prefix):
		return fmt.Sprintf("%.*q is not words of letters, digits, _ and - with dots between them, such as ext",
			maxSubject, prefix)
	case strings.EqualFold(first, "_INBOX") || strings.EqualFold(first, "exthost"):
		return "subjects that begin with " + first + " are for answers and for clusters of hosts"
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
