package clientconfig

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/manifest"
)

// File is a file to write.
type File struct {
	Path string // relative, with slashes
	Data []byte
}

// Extensions returns one manifest per server, at a path relative to the search path.
func (r *Result) Extensions() (files []File) {
	for _, s := range r.Servers {
		files = append(files, File{s.ID + "/" + manifest.FileName, s.manifest(r.Client)})
	}
	return files
}

// passedThrough reports whether a variable is passed through under its own name.
func passedThrough(name, value string) bool { return value == "${"+name+"}" }

// RequiredEnv returns the variables that have to be set for the server, sorted.
func (s *Server) RequiredEnv() []string {
	names := slices.Clone(s.Pass)
	s.eachValue(func(where, value string) string {
		if where == "command" { // a manifest expands ${HOME} in a command from the host's environment
			return value
		}
		for _, m := range reference.FindAllStringSubmatch(strings.ReplaceAll(value, "$${", ""), -1) {
			name, _, hasDefault := strings.Cut(m[1], ":-")
			if own, set := s.Env[name]; !hasDefault && (!set || passedThrough(name, own) || where == "env."+name) {
				names = append(names, name)
			}
		}
		return value
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// asServer reports whether the command refers to ${HOME}, which a manifest allows only in [mcp_servers]. The
// extension is then {id}.server.
func (s *Server) asServer() bool { return strings.Contains(s.Command, "${") }

func (s *Server) manifest(from Client) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("[plugin]\nid = %s\nversion = \"0.0.0\"", text.Literal(s.ID))
	line("description = %s", text.Literal(fmt.Sprintf("The MCP server %s, as %s is configured with it.", s.Name,
		from)))
	if required := s.RequiredEnv(); len(required) > 0 {
		line("\n[requires]\nenv = %s", text.LiteralList(required))
	}
	if len(s.Tools) > 0 {
		line("\n[capabilities]\ntools = %s", text.LiteralList(s.Tools))
	}
	if s.StartTimeout > 0 || s.CallTimeout > 0 || len(s.Runtime) > 0 {
		line("\n[runtime]")
		s.timeouts(line)
		for _, key := range slices.Sorted(maps.Keys(s.Runtime)) {
			line("%s = %s", key, s.Runtime[key])
		}
	}
	s.transport(line)
	return b.Bytes()
}

func (s *Server) timeouts(line func(string, ...any)) {
	for _, t := range []struct {
		key string
		d   time.Duration
	}{{"start_timeout", s.StartTimeout}, {"call_timeout", s.CallTimeout}} {
		if t.d > 0 {
			line("%s = %s", t.key, text.Literal(t.d.String()))
		}
	}
}

func (s *Server) transport(line func(string, ...any)) {
	if s.asServer() {
		line("\n[mcp_servers.server]")
	} else {
		line("\n[transport]\nkind = %s\nprotocol = \"mcp\"", text.Literal(s.Kind))
	}
	if s.Kind != manifest.KindStdio {
		line("url = %s", text.Literal(s.URL))
		if len(s.Headers) > 0 {
			line("headers = %s", text.LiteralMap(s.Headers, " = "))
		}
		if s.OAuth != nil {
			line("\n[transport.oauth]")
			s.login(func(key, value string) { line("%s = %s", key, value) })
		}
		return
	}
	line("command = %s", text.Literal(s.Command))
	if len(s.Args) > 0 {
		line("args = %s", text.LiteralList(s.Args))
	}
	env := maps.Clone(s.Env)
	maps.DeleteFunc(env, passedThrough)
	if len(env) > 0 {
		line("env = %s", text.LiteralMap(env, " = "))
	}
	if s.Cwd != "" {
		line("cwd = %s", text.Literal(s.Cwd))
	}
}

// login writes the OAuth settings.
func (s *Server) login(line func(key, value string)) {
	for _, t := range []struct{ key, value string }{
		{"client_id", s.OAuth.ClientID},
		{"client_secret", s.OAuth.ClientSecret},
	} {
		if t.value != "" {
			line(t.key, text.Literal(t.value))
		}
	}
	if len(s.OAuth.Scopes) > 0 {
		line("scopes", text.LiteralList(s.OAuth.Scopes))
	}
	if s.OAuth.CallbackPort > 0 {
		line("callback_port", strconv.Itoa(s.OAuth.CallbackPort))
	}
}

// Destinations returns the destinations section of a configuration as YAML.
func (r *Result) Destinations() []byte {
	// destinations cannot be disabled
	servers := slices.DeleteFunc(slices.Clone(r.Servers), func(s Server) bool { return s.Disabled })
	if len(servers) == 0 {
		return []byte("destinations: {}\n")
	}
	var b bytes.Buffer
	b.WriteString("destinations:\n")
	for _, s := range servers {
		line := func(key, value string) { b.WriteString(strings.TrimSuffix("    "+key+": "+value, " ") + "\n") }
		fmt.Fprintf(&b, "  %s:\n", text.Literal(s.ID))
		line("type", s.Kind)
		if s.Kind != manifest.KindStdio {
			line("url", text.Literal(s.URL))
			if len(s.Headers) > 0 {
				line("headers", text.LiteralMap(s.Headers, ": "))
			}
			if s.OAuth != nil {
				line("oauth", "")
				s.login(func(key, value string) { line("  "+key, value) })
			}
		} else {
			s.destination(line)
		}
		if s.StartTimeout > 0 {
			line("start_timeout", s.StartTimeout.String())
		}
	}
	return b.Bytes()
}

func (s *Server) destination(line func(key, value string)) {
	line("command", text.LiteralList(append([]string{s.Command}, s.Args...)))
	env := maps.Clone(s.Env)
	for _, name := range s.Pass {
		env[name] = cmp.Or(env[name], "${"+name+"}")
	}
	if len(env) > 0 {
		line("env", text.LiteralMap(env, ": "))
	}
	if s.EnvFile != "" {
		line("secrets_file", text.Literal(s.EnvFile))
	}
	if s.Cwd != "" {
		line("cwd", text.Literal(s.Cwd))
	}
}
