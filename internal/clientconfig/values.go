package clientconfig

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/redact"
)

// eachValue applies change to every value of s that may contain references. where is the
// field.
func (s *Server) eachValue(change func(where, value string) string) {
	s.Command, s.Cwd, s.URL, s.EnvFile = change("command", s.Command), change("cwd", s.Cwd), change("url", s.URL), change("envFile", s.EnvFile)
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

var (
	reference       = regexp.MustCompile(`\$\{([^{}]*)\}`)
	bareReference   = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(:-.*)?$`)
)

// translate converts the client's references to those of the host. It returns the reason
// why the server cannot be used without its client.
func (r *reader) translate(s *Server) (problem string) {
	s.eachValue(func(where, value string) string {
		if r.result.Client == Codex && strings.Contains(value, "${") {
			if !strings.HasPrefix(where, "headers.") { // headers are written by this package
				r.note(s.Name, "%s: ${…} is plain text to Codex, and a variable here", where)
			}
			return value
		}
		if r.result.Client == Gemini {
			value = bareReference.ReplaceAllString(value, "$${$1}")
		}
		return reference.ReplaceAllStringFunc(value, func(ref string) string {
			translated, ok := r.resolve(strings.TrimSuffix(strings.TrimPrefix(ref, "${"), "}"))
			if !ok && problem == "" {
				problem = fmt.Sprintf("%s: %s is known to the client alone; write its value, or a variable as ${NAME}", where, ref)
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

// maskSecrets replaces secrets by references to variables.
func (r *reader) maskSecrets(s *Server) {
	flag := ""
	s.eachValue(func(where, value string) string {
		name := strings.TrimPrefix(strings.TrimPrefix(where, "env."), "headers.")
		before := flag
		flag = ""
		switch {
		case strings.HasPrefix(where, "args["):
			if option, rest, ok := strings.Cut(value, "="); ok && strings.HasPrefix(option, "-") {
				return option + "=" + r.maskArgument(s, where, optionName(option), rest)
			}
			if strings.HasPrefix(value, "-") {
				flag = optionName(value) // the next argument may be its value
				return value
			}
			return r.maskArgument(s, where, before, value)
		case where == "url":
			return r.maskURL(s, value)
		case strings.HasPrefix(where, "headers.") && strings.EqualFold(name, "Authorization"):
			if scheme, token, ok := strings.Cut(value, " "); ok {
				return scheme + " " + r.maskValue(s, where, "TOKEN", token)
			}
			return r.maskValue(s, where, "TOKEN", value)
		}
		return r.maskValue(s, where, variableName(name), value)
	})
}

// optionName returns the name of a variable for an option's value.
func optionName(option string) string { return variableName(strings.TrimLeft(option, "-")) }

var notInNames = regexp.MustCompile(`[^A-Z0-9]+`)

func variableName(name string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToUpper(name), "_"), "_")
}

// assignment matches an argument that sets a variable, as in docker run -e.
var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// maskArgument is maskValue for an argument, which may assign a variable.
func (r *reader) maskArgument(s *Server, where, option, value string) string {
	if assignment.MatchString(value) && !isSecret(option, "x") {
		name, rest, _ := strings.Cut(value, "=")
		return name + "=" + r.maskValue(s, where, variableName(name), rest)
	}
	return r.maskValue(s, where, option, value)
}

func isSecret(name, value string) bool { return len(process.Secrets([]string{name + "=" + value})) > 0 }

// maskValue returns a reference to a variable if value is a secret, by its name or its
// form, else value.
func (r *reader) maskValue(s *Server, where, name, value string) string {
	if value == "" || strings.Contains(value, "${") {
		return value
	}
	if !isSecret(name, value) {
		if masked, _ := redact.Default().Text(value); masked == value {
			return value
		}
		if name == "" {
			name = "SECRET"
		}
	}
	variable := name
	if where != "env."+name {
		variable = prefix(s.Name) + name
	}
	for n := 2; r.variables[variable] != "" && r.variables[variable] != value; n++ {
		if variable = prefix(s.Name) + name; n > 2 {
			variable += fmt.Sprint("_", n-1)
		}
	}
	r.variables[variable] = value
	if !slices.Contains(s.Variables, variable) {
		s.Variables = append(s.Variables, variable)
		r.note(s.Name, "%s is a secret: set %s to it before the host starts", where, variable)
	}
	return "${" + variable + "}"
}

// prefix returns the prefix of a server's variables. A variable does not begin with a
// digit.
func prefix(server string) string {
	name := variableName(server)
	if name == "" || name[0] <= '9' {
		name = strings.Trim("MCP_"+name, "_")
	}
	return name + "_"
}

// maskURL masks the password and the secret parameters of a URL. It does not decode them,
// so that the variables hold them in escaped form.
func (r *reader) maskURL(s *Server, value string) string {
	scheme, rest, ok := strings.Cut(value, "://")
	if !ok {
		return value
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	authority, path, hasPath := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 && !strings.Contains(authority, "${") {
		if user, password, ok := strings.Cut(authority[:at], ":"); ok {
			authority = user + ":" + r.maskValue(s, "url", "PASSWORD", password) + authority[at:]
		}
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		if name, secret, ok := strings.Cut(pair, "="); ok {
			pairs[i] = name + "=" + r.maskValue(s, "url", variableName(name), secret)
		}
	}
	value = scheme + "://" + authority
	if hasPath {
		value += "/" + path
	}
	if hasQuery {
		value += "?" + strings.Join(pairs, "&")
	}
	return value
}
