package clientconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/manifest"
)

// File is a file to be written.
type File struct {
	Path string // relative, with slashes
	Data []byte
}

// Extensions returns the folders of the servers as extensions, below the search path.
func (r *Result) Extensions() (files []File) {
	for _, s := range r.Servers {
		files = append(files, File{s.ID + "/" + manifest.FileName, s.manifest(r.Client)})
	}
	return files
}

// passed reports whether a variable of the server is one of the environment under
// the same name.
func passed(name, value string) bool { return value == "${"+name+"}" }

// declared are the variables of the environment that the server must be given.
func (s *Server) declared() []string {
	names := slices.Clone(s.Pass)
	s.each(func(_, value string) string {
		for _, m := range reference.FindAllStringSubmatch(value, -1) {
			if name, _, hasDefault := strings.Cut(m[1], ":-"); !hasDefault {
				names = append(names, name)
			}
		}
		return value
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// refers reports whether the server refers to variables in a way that a manifest's
// own command cannot: only those of MCP servers beside it are filled in.
func (s *Server) refers() (is bool) {
	if s.Kind != manifest.KindStdio {
		return false // whose address and headers may
	}
	s.each(func(where, value string) string {
		is = is || strings.Contains(value, "${") && !passed(strings.TrimPrefix(where, "env."), value)
		return value
	})
	return is
}

// manifest writes the plugin.toml.
func (s *Server) manifest(from Client) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("[plugin]\nid = %s\nversion = \"0.0.0\"", quote(s.ID))
	line("description = %s", quote(fmt.Sprintf("The MCP server %s, as %s is configured with it.", s.Name, from)))
	if declared := s.declared(); len(declared) > 0 {
		line("\n[requires]\nenv = %s", quoteList(declared))
	}
	if len(s.Tools) > 0 {
		line("\n[capabilities]\ntools = %s", quoteList(s.Tools))
	}
	if s.StartTimeout > 0 || s.CallTimeout > 0 {
		line("\n[runtime]")
		s.timeouts(line)
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
			line("%s = %s", t.key, quote(t.d.String()))
		}
	}
}

func (s *Server) transport(line func(string, ...any)) {
	if s.refers() {
		line("\n[mcp_servers.server]")
	} else {
		line("\n[transport]\nkind = %s\nprotocol = \"mcp\"", quote(s.Kind))
	}
	if s.Kind != manifest.KindStdio {
		line("url = %s", quote(s.URL))
		if len(s.Headers) > 0 {
			line("headers = %s", quoteMap(s.Headers, " = "))
		}
		return
	}
	line("command = %s", quote(s.Command))
	if len(s.Args) > 0 {
		line("args = %s", quoteList(s.Args))
	}
	env := maps.Clone(s.Env)
	maps.DeleteFunc(env, passed)
	if len(env) > 0 {
		line("env = %s", quoteMap(env, " = "))
	}
	if s.Cwd != "" {
		line("cwd = %s", quote(s.Cwd))
	}
}

// Destinations returns the servers as the destinations of a configuration, in YAML.
func (r *Result) Destinations() []byte {
	var b bytes.Buffer
	b.WriteString("destinations:\n")
	for _, s := range r.Servers {
		line := func(key, value string) { fmt.Fprintf(&b, "    %s: %s\n", key, value) }
		fmt.Fprintf(&b, "  %s:\n", quote(s.ID))
		line("type", s.Kind)
		if s.Kind != manifest.KindStdio {
			line("url", quote(s.URL))
			if len(s.Headers) > 0 {
				line("headers", quoteMap(s.Headers, ": "))
			}
		} else {
			s.destination(line)
		}
		if s.StartTimeout > 0 {
			line("start_timeout", s.StartTimeout.String())
		}
	}
	if len(r.Servers) == 0 {
		return []byte("destinations: {}\n")
	}
	return b.Bytes()
}

func (s *Server) destination(line func(key, value string)) {
	line("command", quoteList(append([]string{s.Command}, s.Args...)))
	env := maps.Clone(s.Env)
	for _, name := range s.Pass {
		if env[name] == "" {
			env[name] = "${" + name + "}"
		}
	}
	if len(env) > 0 {
		line("env", quoteMap(env, ": "))
	}
	if s.EnvFile != "" {
		line("secrets_file", quote(s.EnvFile))
	}
	if s.Cwd != "" {
		line("cwd", quote(s.Cwd))
	}
}

// quote writes a string as TOML, YAML and JSON all read it.
func quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // strings always encode
	return strings.TrimSuffix(b.String(), "\n")
}

func quoteList(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func quoteMap(m map[string]string, is string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, quote(key)+is+quote(m[key]))
	}
	return "{ " + strings.Join(pairs, ", ") + " }"
}
