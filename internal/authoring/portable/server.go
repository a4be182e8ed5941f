package portable

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
)

// server is one server of mcp.json.
type server struct {
	Type    string            `json:"type"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// types are the types of the transports that the format has.
var types = map[string]string{
	manifest.KindStdio: "stdio",
	manifest.KindHTTP:  "streamable-http",
	manifest.KindSSE:   "sse",
}

// server carries over how c is reached, or says why it is not.
func (p *packing) server(c *discovery.Candidate) {
	t, name := c.Manifest.Transport, p.name
	if c.Owner != "" {
		name = c.Manifest.Plugin.Name
	}
	switch {
	case t.Kind == "":
		return // it has servers or skills alone
	case types[t.Kind] == "":
		p.lost("server %s: the format has no transport %s", name, t.Kind)
		return
	case t.Protocol != manifest.ProtocolMCP:
		p.lost("server %s: its program speaks the protocol %s of exthost, and clients of the format speak MCP", name,
			t.Protocol)
		return
	}
	s := server{Type: types[t.Kind]}
	var why string
	if t.URL != "" {
		why = p.remote(&s, &t, name)
	} else {
		why = p.process(&s, &t, name)
	}
	if why != "" {
		p.lost("server %s: %s", name, why)
		return
	}
	for _, key := range []struct {
		name   string
		stated bool
	}{
		{"token_env", t.TokenEnv != ""},
		{"token_file", t.TokenFile != ""},
		{"oauth", t.OAuth != nil},
		{"mcp_version", t.MCPVersion != manifest.MCPVersionAuto},
	} {
		if key.stated {
			p.lost("server %s: %s has no place in the format", name, key.name)
		}
	}
	if _, twice := p.servers[name]; twice {
		p.lost("server %s: there is another one with the name of the plugin", name)
		return
	}
	p.servers[name] = s
}

// literal returns a text for a format that replaces PLUGIN_ROOT and PLUGIN_DATA alone. ok is false if it refers to
// anything else of the machine.
func literal(text string) (_ string, ok bool) {
	text = strings.ReplaceAll(text, "${EXTHOST_STATE_DIR}", "${"+agentplugin.DataVariable+"}")
	rest := strings.ReplaceAll(text, "${"+agentplugin.DataVariable+"}", "")
	return text, !strings.Contains(rest, "${") && !strings.Contains(rest, "secret://")
}

func (p *packing) remote(s *server, t *manifest.Transport, name string) (why string) {
	address, ok := literal(t.URL)
	if !ok {
		return "its address has a variable, which the format does not replace"
	}
	s.URL = address
	s.Headers = p.texts(t.Headers, name, "header")
	return ""
}

// texts carries over the texts that are the same on every machine, and names the others.
func (p *packing) texts(of map[string]string, name, what string) map[string]string {
	all := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		text, ok := literal(of[key])
		if !ok {
			p.lost("server %s: the %s %s has a value of the user's machine, which each user has to state", name, what,
				key)
			continue
		}
		all[key] = text
	}
	return all
}

// scripts are the programs that run a script, by its ending.
var scripts = map[string]string{".py": "python3", ".sh": "sh", ".js": "node", ".mjs": "node"}

func (p *packing) process(s *server, t *manifest.Transport, name string) (why string) {
	command, args := t.Command, t.Args
	if len(t.Cmd) > 0 {
		command, args = t.Cmd[0], t.Cmd[1:]
	}
	if t.Script != "" {
		script := "./" + path.Clean(filepath.ToSlash(t.Script))
		if command = scripts[strings.ToLower(path.Ext(script))]; command == "" {
			command = script
		} else {
			args = append([]string{"${" + agentplugin.RootVariable + "}/" + script[2:]}, args...)
		}
	}
	switch {
	case strings.Contains(command, "${") || strings.HasPrefix(command, "~"):
		return "its program " + command + " lies outside of its folder"
	case filepath.IsAbs(command) || strings.HasPrefix(command, "/"):
		return "its program " + command + " is a path of this machine"
	case strings.ContainsAny(command, `/\`):
		command = "./" + path.Clean(filepath.ToSlash(command))
	}
	s.Command = command
	for _, word := range args {
		text, ok := literal(word)
		if own := strings.HasPrefix(word, "${"+agentplugin.RootVariable+"}/") && t.Script != ""; !ok && !own {
			return "its argument " + word + " has a variable, which the format does not replace"
		}
		s.Args = append(s.Args, text)
	}
	s.Env = p.texts(t.Env, name, "variable")
	return s.cwd(t.Cwd)
}

// cwd sets the working directory.
func (s *server) cwd(dir string) (why string) {
	text, ok := literal(dir)
	switch {
	case dir == "":
		return ""
	case !ok || filepath.IsAbs(dir) || strings.HasPrefix(dir, "~"):
		return "its working directory " + dir + " is a path of this machine"
	case !strings.HasPrefix(text, "${"):
		text = "./" + path.Clean(filepath.ToSlash(text))
	}
	s.Cwd = text
	return ""
}
