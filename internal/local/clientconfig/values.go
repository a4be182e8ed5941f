package clientconfig

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/secret/secrets"
)

// eachValue applies change to every value that may contain references. where is the field's path.
func (s *Server) eachValue(change func(where, value string) string) {
	s.Command = change("command", s.Command)
	s.Cwd = change("cwd", s.Cwd)
	s.URL = change("url", s.URL)
	s.EnvFile = change("envFile", s.EnvFile)
	if s.OAuth != nil {
		s.OAuth.ClientID = change("oauth.client_id", s.OAuth.ClientID)
		s.OAuth.ClientSecret = change("oauth.client_secret", s.OAuth.ClientSecret)
	}
	for i, arg := range s.Args {
		s.Args[i] = change(fmt.Sprintf("args[%d]", i), arg)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		s.Env[name] = change("env."+name, s.Env[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		s.Headers[name] = change("headers."+name, s.Headers[name])
	}
}

// refers returns the first field that refers to a stored secret, or "".
func (s *Server) refers() (at string) {
	s.eachValue(func(where, value string) string {
		if at == "" && secrets.Refers(value) {
			at = where
		}
		return value
	})
	return at
}

// leaveToProgram escapes an argument's references to variables with a stored secret, because other users can read
// command lines. Programs such as mcp-remote expand the references themselves.
func (s *Server) leaveToProgram() {
	for i, arg := range s.Args {
		s.Args[i] = reference.ReplaceAllStringFunc(arg, func(ref string) string {
			name, _, _ := strings.Cut(strings.Trim(ref, "${}"), ":-")
			if secrets.Refers(s.Env[name]) {
				return "$" + ref
			}
			return ref
		})
	}
}

// withOwn expands references to the server's own variables, because a destination's command is read before these
// variables are set.
func (s *Server) withOwn() {
	s.eachValue(func(where, value string) string {
		if strings.HasPrefix(where, "env.") {
			return value
		}
		return reference.ReplaceAllStringFunc(value, func(ref string) string {
			if own, ok := s.Env[strings.Trim(ref, "${}")]; ok {
				return own
			}
			return ref
		})
	})
}

var (
	reference       = regexp.MustCompile(`\$\{([^{}]*)\}`)
	bareReference   = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(:-.*)?$`)
)

// translate converts the client's references to the host's. If the server cannot be used without the client,
// translate returns the reason, else "".
func (r *reader) translate(s *Server) (problem string) {
	s.eachValue(func(where, value string) string {
		if r.result.Client == Codex && strings.Contains(value, "${") {
			// headers are written by this package, and a plugin's reader has escaped its texts
			if !strings.HasPrefix(where, "headers.") && r.Plugin == "" {
				r.note(s.Name, "%s: ${…} is plain text to Codex, and a variable here", where)
			}
			return value
		}
		if r.result.Client == Gemini {
			value = bareReference.ReplaceAllString(value, "$${$1}")
		}
		return reference.ReplaceAllStringFunc(value, func(ref string) string {
			translated, ok := "", false
			if name := strings.TrimSuffix(strings.TrimPrefix(ref, "${"), "}"); strings.HasPrefix(name, "input:") {
				translated, ok = r.asked(s, where, strings.TrimPrefix(name, "input:"))
			} else {
				translated, ok = r.resolve(name)
			}
			if !ok && problem == "" {
				problem = fmt.Sprintf("%s: %s is known to the client alone; write its value, or a variable as ${NAME}",
					where, ref)
			}
			return translated
		})
	})
	return problem
}

// resolve returns the replacement of a reference.
func (r *reader) resolve(ref string) (translated string, ok bool) {
	switch name, rest, _ := strings.Cut(ref, ":"); {
	case name == "env" && variablePattern.MatchString(rest):
		return "${" + rest + "}", true
	case ref == "userHome":
		return r.Home, r.Home != ""
	case ref == "workspaceFolder" || ref == "workspaceRoot":
		return r.Workspace, r.Workspace != ""
	case ref == "workspaceFolderBasename":
		return filepath.Base(r.Workspace), r.Workspace != ""
	case ref == "pathSeparator" || ref == "/":
		return string(filepath.Separator), true
	}
	return "${" + ref + "}", variablePattern.MatchString(ref)
}
