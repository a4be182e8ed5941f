package logins

import (
	"regexp"
	"strings"
)

// challenge is the content of WWW-Authenticate (RFC 6750, section 3).
type challenge struct {
	insufficient bool     // the token lacks scopes
	scopes       []string // scopes that the server requires
}

// scopeForm matches a scope (RFC 6749, section 3.3) that needs no quoting in a shell.
var scopeForm = regexp.MustCompile(`^[A-Za-z0-9:/._+@=,-]+$`)

// Bounds of what a message says: the scopes, and the bytes of each.
const (
	maxScopes = 32
	maxScope  = 200
)

// parse parses WWW-Authenticate headers. isLogin reports whether they ask for a bearer token; it is also true
// without any header.
func parse(values []string) (c challenge, isLogin bool) {
	bearer, ok := Bearer(values)
	if !ok {
		return c, strings.TrimSpace(strings.Join(values, "")) == ""
	}
	c.insufficient = bearer["error"] == "insufficient_scope"
	for _, scope := range strings.Fields(bearer["scope"]) {
		if len(scope) <= maxScope && scopeForm.MatchString(scope) && len(c.scopes) < maxScopes {
			c.scopes = append(c.scopes, scope)
		}
	}
	return c, true
}

// WantedScopes returns the scopes that the server requires beyond those of the token, from WWW-Authenticate headers;
// nil if the headers name none.
func WantedScopes(values []string) []string {
	if c, _ := parse(values); c.insufficient {
		return c.scopes
	}
	return nil
}

// Bearer returns the parameters of the first Bearer challenge in WWW-Authenticate headers, by lower-case name. It
// skips what RFC 9110 does not allow, such as empty values, because some servers send it.
func Bearer(values []string) (params map[string]string, ok bool) {
	for _, value := range values {
		scheme := ""
		for rest := value; rest != ""; {
			var name, text string
			var isParam bool
			name, text, isParam, rest = nextWord(rest)
			switch name = strings.ToLower(name); {
			case name == "":
			case !isParam && ok: // the next challenge
				return params, true
			case !isParam:
				if scheme = name; scheme == "bearer" {
					params, ok = map[string]string{}, true
				}
			case scheme == "bearer":
				if _, twice := params[name]; !twice {
					params[name] = text
				}
			}
		}
		if ok {
			return params, true
		}
	}
	return nil, false
}

// nextWord splits off the first scheme, or parameter with its value. name is "" if text starts with a separator.
func nextWord(text string) (name, value string, isParam bool, rest string) {
	end := strings.IndexFunc(text, func(c rune) bool { return strings.ContainsRune(" \t,=\";", c) })
	if end < 0 {
		return text, "", false, ""
	}
	if end == 0 {
		return "", "", false, text[1:]
	}
	name, rest = text[:end], strings.TrimLeft(text[end:], " \t")
	value, isParam = strings.CutPrefix(rest, "=")
	if !isParam {
		return name, "", false, rest
	}
	value = strings.TrimLeft(value, " \t")
	if strings.HasPrefix(value, `"`) {
		value, rest = quoted(value[1:])
		return name, value, true, rest
	}
	end = strings.IndexAny(value, " \t,")
	if end < 0 {
		return name, value, true, ""
	}
	return name, value[:end], true, value[end:]
}

// quoted decodes a quoted string from behind its opening quote, and returns the rest of text. A missing closing quote
// is accepted.
func quoted(text string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:]
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

func (c challenge) text() string {
	if len(c.scopes) == 0 {
		return ""
	}
	return " (" + strings.Join(c.scopes, ", ") + ")"
}

// flags returns the flags of exthost secret login that request the scopes.
func (c challenge) flags() (flags []string) {
	if len(c.scopes) > 0 {
		flags = []string{"--scope", strings.Join(c.scopes, ",")}
	}
	return flags
}
