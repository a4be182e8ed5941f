package toolset

import (
	"net/netip"
	"path"
	"slices"
	"strings"
)

// Bounds of the readings of one URI. A URI with more is refused.
const (
	maxSteps    = 5
	maxReadings = 32
)

// readings returns the URI and the forms in which servers are likely to read it: decoded once or more, as
// libraries of the URL Standard write it (both official SDKs of MCP parse URIs with one), and with a clean path,
// in any order: one reading of /a%2fb/../c is /c, another /a/c. ok is false if a server's reading cannot be
// predicted.
func readings(uri string) (all []string, ok bool) {
	all = []string{uri}
	for next, step := 0, 0; next < len(all); step++ {
		if step > maxSteps || len(all) > maxReadings {
			return nil, false
		}
		from := all[next:]
		next = len(all)
		for _, one := range from {
			standard, ok := standardURI(one)
			if !ok {
				return nil, false
			}
			for _, other := range []string{unescape(one), standard, cleanURI(one)} {
				if !slices.Contains(all, other) {
					all = append(all, other)
				}
			}
		}
	}
	return all, true
}

// defaultPorts are the ports of the special schemes of the URL Standard, "" for none.
var defaultPorts = map[string]string{
	"http:":  ":80",
	"https:": ":443",
	"ws:":    ":80",
	"wss:":   ":443",
	"ftp:":   ":21",
	"file:":  "",
}

var (
	breaks      = strings.NewReplacer("\t", "", "\n", "", "\r", "") // skipped by a parser
	encodedDots = strings.NewReplacer("%2e", ".", "%2E", ".")
)

// standardURI returns a URI roughly as a parser of the URL Standard writes it (url.spec.whatwg.org, "URL
// parsing"), without user information. ok is false for a host that the parser maps to another, such as a
// non-ASCII host or a number that stands for an address.
func standardURI(uri string) (standard string, ok bool) {
	uri = strings.TrimFunc(uri, func(r rune) bool { return r <= ' ' })
	uri = breaks.Replace(uri)
	scheme, rest := cutScheme(uri)
	port, special := defaultPorts[scheme]
	at, tail := cutQuery(rest)
	if !special {
		if authority, below, found := cutAuthority(at); found {
			return scheme + strings.TrimSuffix(authority, ":") + withoutDots(below) + tail, true
		}
		if strings.HasPrefix(at, "/") {
			at = withoutDots(at)
		}
		return scheme + at + tail, true
	}
	at = strings.ReplaceAll(at, `\`, "/")
	if scheme != "file:" {
		at = "//" + strings.TrimLeft(at, "/")
	}
	authority, below, _ := cutAuthority(at)
	host := strings.ToLower(authority[strings.LastIndexByte(authority, '@')+1:])
	host = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "//"), port), ":")
	if scheme == "file:" && host == "localhost" {
		host = ""
	}
	if !isPlainHost(host) {
		return "", false
	}
	return scheme + "//" + host + withoutDots("/"+strings.TrimPrefix(below, "/")) + tail, true
}

// isPlainHost reports whether a parser leaves a host, with or without a port, unchanged.
func isPlainHost(host string) bool {
	if strings.ContainsFunc(host, func(r rune) bool { return r > '~' }) {
		return false
	}
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" || (last[0] < '0' || last[0] > '9') && last[0] != '[' {
		return true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && strings.Trim(host, "[]") == address.String()
}

// withoutDots removes segments of one or two dots, even encoded ones, from an absolute path. Empty segments stay.
func withoutDots(at string) string {
	if !strings.Contains(at, "/.") && !strings.Contains(at, "/%2") {
		return at
	}
	var out []string
	segments := strings.Split(at, "/")
	for n, segment := range segments {
		dots := encodedDots.Replace(segment)
		if dots == ".." && len(out) > 1 {
			out = out[:len(out)-1]
		}
		if dots != "." && dots != ".." {
			out = append(out, segment)
		} else if n == len(segments)-1 {
			out = append(out, "")
		}
	}
	return strings.Join(out, "/")
}

// cleanURI returns a URI with slashes only and a clean path, scheme and authority in lower case, and the
// authority without a trailing dot.
func cleanURI(uri string) string {
	scheme, rest := cutScheme(strings.ReplaceAll(uri, `\`, "/"))
	at, tail := cutQuery(rest)
	authority, at, _ := cutAuthority(at)
	scheme += strings.TrimSuffix(strings.ToLower(authority), ".")
	if at == "" {
		return scheme + tail
	}
	clean := path.Clean(at)
	if strings.HasSuffix(at, "/") && !strings.HasSuffix(clean, "/") {
		clean += "/"
	}
	return scheme + clean + tail
}

// cutScheme returns the scheme in lower case with its colon, and the rest.
func cutScheme(uri string) (scheme, rest string) {
	scheme, rest, found := strings.Cut(uri, ":")
	if !found {
		return "", uri
	}
	return strings.ToLower(scheme) + ":", rest
}

// cutQuery cuts off the query and the fragment.
func cutQuery(rest string) (at, tail string) {
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		return rest[:i], rest[i:]
	}
	return rest, ""
}

// cutAuthority cuts off //authority.
func cutAuthority(at string) (authority, below string, found bool) {
	if !strings.HasPrefix(at, "//") {
		return "", at, false
	}
	if i := strings.IndexByte(at[2:], '/'); i >= 0 {
		return at[:2+i], at[2+i:], true
	}
	return at, "", true
}

// unescape decodes percent-encoding, and leaves other percent signs.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			high, low := digit(s[i+1]), digit(s[i+2])
			if high >= 0 && low >= 0 {
				out = append(out, byte(high<<4|low))
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
