package manifest

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/strict"
)

// The platforms of the Go toolchain that could run a host.
var (
	knownOS = []string{"aix", "android", "darwin", "dragonfly", "freebsd", "illumos", "ios", "linux", "netbsd",
		"openbsd", "plan9", "solaris", "windows"}
	knownArch = []string{"386", "amd64", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64",
		"ppc64le", "riscv64", "s390x"}
)

// commonNames map other names of platforms to those of the Go toolchain.
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

// suggestPlatform suggests which of known a name stands for, or returns "".
func suggestPlatform(name string, known []string) string {
	if common, ok := commonNames[strings.ToLower(name)]; ok {
		return fmt.Sprintf("did you mean %q?", common)
	}
	return strict.DidYouMean(name, known)
}

// MeantKind returns the kind of transport that a word of other programs stands for, "" if none is known.
func MeantKind(word string) string {
	switch plain := strings.ToLower(strings.NewReplacer("-", "", "_", "", "+", "", " ", "").Replace(word)); plain {
	case KindStdio, KindHTTP, KindSSE:
		return plain
	case "streamablehttp", "httpstream", "httpstreamable", "https":
		return KindHTTP
	case "httpsse", "ssehttp", "serversentevents":
		return KindSSE
	case "stdin", "local", "process", "command":
		return KindStdio
	}
	return ""
}

// badURL returns the error in an http url, or "". A url with ${VAR} cannot be checked before the variable is
// known.
func badURL(raw string) string {
	if strings.Contains(raw, "${") {
		return ""
	}
	u, err := url.Parse(raw)
	if at := strings.LastIndexByte(raw, '@'); at >= 0 { // may follow a password
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

// errSize is wrapped by the error of an invalid size.
var errSize = errors.New(`want a size such as "512MiB" or a whole number of bytes`)

// sizeUnits are powers of two.
var sizeUnits = map[string]int{
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

// parseSize reads a number of bytes, such as "512MiB" or "1024".
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "kKmMgGiIbB ")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift, ok := sizeUnits[strings.ToLower(strings.TrimSpace(s[len(digits):]))]
	if err != nil || n < 0 || !ok {
		return 0, fmt.Errorf("%q is not a size: %w", s, errSize)
	}
	if n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is more than a size can hold", s)
	}
	return n << shift, nil
}

// badNATSServer returns the error in the address of a NATS server, or "". An empty address is valid.
func badNATSServer(raw string) string {
	if raw == "" || strings.Contains(raw, "secret://") {
		return ""
	}
	if strings.Contains(raw, "@") { // may have a password: do not quote it
		return "it has a user or a password: state token_env or token_file"
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || u.Port() == "" ||
		u.Path+u.RawQuery+u.Fragment != "" {
		return fmt.Sprintf("%q is no address of a NATS server, such as tls://nats.example:4222", strings.TrimSpace(raw))
	}
	return ""
}

// maxSubject bounds a subject prefix in bytes.
const maxSubject = 128

var subjectPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// badSubject returns why prefix cannot begin the subject of a NATS service, or "".
func badSubject(prefix string) string {
	first, _, _ := strings.Cut(prefix, ".")
	switch {
	case len(prefix) > maxSubject || !subjectPrefix.MatchString(prefix):
		return fmt.Sprintf("%.*q is not words of letters, digits, _ and - with dots between them, such as ext",
			maxSubject, prefix)
	case strings.EqualFold(first, "_INBOX") || strings.EqualFold(first, "exthost"):
		return "subjects that begin with " + first + " are for answers and for clusters of hosts"
	}
	return ""
}

// packageRoot begins the path of a program in the extension's installed package.
const packageRoot = "${EXTHOST_PACKAGE}/"

// badProgram returns why a word cannot name a program, or "". With packaged it may be a program of the extension's
// package.
func badProgram(name string, packaged bool) string {
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

// wholeLine splits a command that is a line: a bare name with blanks, or a program with options. The path of a program
// may have blanks.
func wholeLine(command string) (words []string, line bool) {
	words, line = text.WholeLine(command, nil)
	return words, line && (!strings.ContainsAny(words[0], `/\`) || strings.HasPrefix(words[1], "-"))
}
