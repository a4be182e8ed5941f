package toolset

import (
	"path"
	"strings"
)

// maxEncoded is how often the parts of a URI may be percent-encoded.
const maxEncoded = 4

// plainURI returns the form of a URI that servers are likely to take it for: without
// percent-encoding and dot segments, with slashes alone, the scheme and the authority in lower
// case. ok is false when the URI is encoded too often to say.
func plainURI(uri string) (plain string, ok bool) {
	for range maxEncoded {
		decoded := unescape(uri)
		if decoded == uri {
			return cleanURI(strings.ReplaceAll(uri, `\`, "/")), true
		}
		uri = decoded
	}
	return "", false
}

func cleanURI(uri string) string {
	scheme, rest, found := strings.Cut(uri, ":")
	if !found {
		scheme, rest = "", uri
	} else {
		scheme = strings.ToLower(scheme) + ":"
	}
	if after, hasAuthority := strings.CutPrefix(rest, "//"); hasAuthority {
		at := strings.IndexAny(after, "/?#")
		if at < 0 {
			at = len(after)
		}
		scheme, rest = scheme+"//"+strings.ToLower(after[:at]), after[at:]
	}
	end := strings.IndexAny(rest, "?#")
	if end < 0 {
		end = len(rest)
	}
	at, tail := rest[:end], rest[end:]
	if at == "" {
		return scheme + tail
	}
	clean := path.Clean(at)
	if strings.HasSuffix(at, "/") && !strings.HasSuffix(clean, "/") {
		clean += "/"
	}
	return scheme + clean + tail
}

// unescape decodes what is percent-encoded, and leaves other percent signs.
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
