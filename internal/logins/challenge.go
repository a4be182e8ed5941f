package logins

import (
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
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
	list, err := oauthex.ParseWWWAuthenticate(values)
	if err != nil {
		return c, false
	}
	for _, one := range list {
		if one.Scheme != "bearer" {
			continue
		}
		c.insufficient = one.Params["error"] == "insufficient_scope"
		for _, scope := range strings.Fields(one.Params["scope"]) {
			if scopeForm.MatchString(scope) && len(c.scopes) < maxScopes {
				c.scopes = append(c.scopes, scope)
			}
		}
		return c, true
	}
	return c, len(list) == 0
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
