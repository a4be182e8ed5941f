package logins

import (
	"regexp"
	"strings"
)

// challenge is what a server says when it refuses a request (RFC 6750, section 3).
type challenge struct {
	insufficient bool     // the token is for too little
	scopes       []string // that the server wants
}

// scopeForm is the form of a scope (RFC 6749, section 3.3), less what a shell would not take as a
// word.
var scopeForm = regexp.MustCompile(`^[A-Za-z0-9:/._+@=,-]{1,200}$`)

// maxScopes bounds the scopes that a message names.
const maxScopes = 32

// parse reads the values of WWW-Authenticate. isLogin reports whether they ask for a bearer token;
// a server that says nothing may.
func parse(values []string) (c challenge, isLogin bool) {
	bearer, ok := Bearer(values)
	if !ok {
		return c, strings.TrimSpace(strings.Join(values, "")) == ""
	}
	c.insufficient = bearer["error"] == "insufficient_scope"
	for _, scope := range strings.Fields(bearer["scope"]) {
		if scopeForm.MatchString(scope) && len(c.scopes) < maxScopes {
			c.scopes = append(c.scopes, scope)
		}
	}
	return c, true
}

// WantedScopes returns the scopes for want of which a server refuses a request, as the values of
// WWW-Authenticate name them; nil: it names none.
func WantedScopes(values []string) []string {
	if c, _ := parse(values); c.insufficient {
		return c.scopes
	}
	return nil
}

// Bearer returns the parameters of the first challenge for a bearer token in the values of
// WWW-Authenticate, with names in lower case; ok is false without one. Servers write what
// RFC 9110 does not allow, such as empty values: what cannot be read is skipped.
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

// nextWord returns the first word of a list of challenges and what follows: a scheme, or a
// parameter with its value. The name is empty where text begins with none.
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

// quoted returns a quoted text without its quotes, and what follows. One that does not end goes to
// the end.
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

// flags are those of exthost login that ask for the scopes.
func (c challenge) flags() (flags []string) {
	if len(c.scopes) > 0 {
		flags = []string{"--scope", strings.Join(c.scopes, ",")}
	}
	return flags
}
