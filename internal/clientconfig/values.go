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

// each applies change to every value of s that may refer to variables, and says
// where it stands.
func (s *Server) each(change func(where, value string) string) {
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
	reference = regexp.MustCompile(`\$\{([^{}]*)\}`)
	bare      = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)
	variable  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(:-.*)?$`)
)

// translate writes the references of the client as ours. It returns why the server
// cannot be used without its client.
func (r *reader) translate(s *Server) (problem string) {
	s.each(func(where, value string) string {
		if r.result.Client == Codex && strings.Contains(value, "${") {
			if !strings.HasPrefix(where, "headers.") { // those are ours
				r.note(s.Name, "%s: ${…} is plain text to Codex, and a variable here", where)
			}
			return value
		}
		if r.result.Client == Gemini {
			value = bare.ReplaceAllString(value, "$${$1}")
		}
		return reference.ReplaceAllStringFunc(value, func(ref string) string {
			ours, ok := r.resolve(strings.TrimSuffix(strings.TrimPrefix(ref, "${"), "}"))
			if !ok && problem == "" {
				problem = fmt.Sprintf("%s: %s is known to the client alone; write its value, or a variable as ${NAME}", where, ref)
			}
			return ours
		})
	})
	return problem
}

// resolve returns what a reference becomes here.
func (r *reader) resolve(ref string) (ours string, ok bool) {
	switch name, rest, _ := strings.Cut(ref, ":"); {
	case name == "env" && variable.MatchString(rest):
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
	return "${" + ref + "}", variable.MatchString(ref)
}

// hide puts variables in the place of secrets.
func (r *reader) hide(s *Server) {
	flag := ""
	s.each(func(where, value string) string {
		name := strings.TrimPrefix(strings.TrimPrefix(where, "env."), "headers.")
		before := flag
		flag = ""
		switch {
		case strings.HasPrefix(where, "args["):
			if option, rest, ok := strings.Cut(value, "="); ok && strings.HasPrefix(option, "-") {
				return option + "=" + r.concealWord(s, where, optionName(option), rest)
			}
			if strings.HasPrefix(value, "-") {
				flag = optionName(value) // its value may be the next word
				return value
			}
			return r.concealWord(s, where, before, value)
		case where == "url":
			return r.concealURL(s, value)
		case strings.HasPrefix(where, "headers.") && strings.EqualFold(name, "Authorization"):
			if scheme, token, ok := strings.Cut(value, " "); ok {
				return scheme + " " + r.conceal(s, where, "TOKEN", token)
			}
			return r.conceal(s, where, "TOKEN", value)
		}
		return r.conceal(s, where, upper(name), value)
	})
}

// optionName is the name of a variable for what an option takes.
func optionName(option string) string { return upper(strings.TrimLeft(option, "-")) }

var notInNames = regexp.MustCompile(`[^A-Z0-9]+`)

func upper(name string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToUpper(name), "_"), "_")
}

// assignment is a word that sets a variable, as docker run -e takes it.
var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// concealWord is conceal for what an option takes, which may be the value of a
// variable.
func (r *reader) concealWord(s *Server, where, option, value string) string {
	if assignment.MatchString(value) && !isSecret(option, "x") {
		name, rest, _ := strings.Cut(value, "=")
		return name + "=" + r.conceal(s, where, upper(name), rest)
	}
	return r.conceal(s, where, option, value)
}

func isSecret(name, value string) bool { return len(process.Secrets([]string{name + "=" + value})) > 0 }

// conceal returns a reference in the place of a value that is a secret, by the name
// of what it is for or by its looks.
func (r *reader) conceal(s *Server, where, name, value string) string {
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
	own := name
	if where != "env."+name {
		own = prefix(s.Name) + name
	}
	for n := 2; r.variables[own] != "" && r.variables[own] != value; n++ {
		if own = prefix(s.Name) + name; n > 2 {
			own += fmt.Sprint("_", n-1)
		}
	}
	r.variables[own] = value
	if !slices.Contains(s.Variables, own) {
		s.Variables = append(s.Variables, own)
		r.note(s.Name, "%s is a secret: set %s to it before the host starts", where, own)
	}
	return "${" + own + "}"
}

// prefix is what the variables of a server begin with. No variable begins with a digit.
func prefix(server string) string {
	name := upper(server)
	if name == "" || name[0] <= '9' {
		name = strings.Trim("MCP_"+name, "_")
	}
	return name + "_"
}

// concealURL hides the password and the secret parameters of an address. They stay
// escaped as they are: what is taken out is put in again as it was.
func (r *reader) concealURL(s *Server, value string) string {
	scheme, rest, ok := strings.Cut(value, "://")
	if !ok {
		return value
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	authority, path, hasPath := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 && !strings.Contains(authority, "${") {
		if user, password, ok := strings.Cut(authority[:at], ":"); ok {
			authority = user + ":" + r.conceal(s, "url", "PASSWORD", password) + authority[at:]
		}
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		if name, secret, ok := strings.Cut(pair, "="); ok {
			pairs[i] = name + "=" + r.conceal(s, "url", upper(name), secret)
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
