package manifest

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

// mcpFile is a .mcp.json being read.
type mcpFile struct{ *strict.Report }

// mcpServer is a server as other clients write it. decode fills in its definition, replaces VS Code's ${env:NAME} by
// ${NAME} and moves httpUrl to the URL of a server of type http.
type mcpServer struct {
	name       string
	path       string // path in the file: servers.NAME
	definition mcpDefinition
	asksUser   bool // a value contains ${input:NAME}

	node   *strict.Node
	places strict.Positions
}

// mcpDefinition is the value of a server.
type mcpDefinition struct {
	Type     string            `json:"type" alias:"transport"`
	Command  string            `json:"command"`
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env"`
	Cwd      string            `json:"cwd"`
	URL      string            `json:"url"`
	HTTPURL  string            `json:"httpUrl"` // Gemini's key for streamable HTTP, where url means SSE
	Headers  map[string]string `json:"headers"`
	Disabled bool              `json:"disabled"`
}

// note reports an Info.
func (f *mcpFile) note(pos strict.Pos, hint, format string, args ...any) {
	f.Diagnose(protocol.LevelInfo, CodeSidecarNote, pos, hint, format, args...)
}

// servers returns the members of mcpServers and servers. If root has neither, it reports an error and ok is false.
func (f *mcpFile) servers(root *strict.Node) (servers []*mcpServer, ok bool) {
	for _, list := range root.Fields {
		switch list.Key {
		case "mcpServers", "servers", "mcp_servers":
			ok = true
		default:
			f.note(list.Pos, "", "%q is not used", list.Key)
			continue
		}
		if list.Value.Kind != strict.Map {
			f.Add(list.Pos, "", "%s: want an object of servers", list.Key)
		}
		for _, server := range list.Value.Fields {
			path := list.Key + "." + server.Key
			servers = append(servers, &mcpServer{name: server.Key, path: path, node: server.Value})
		}
	}
	if !ok {
		f.Add(strict.Pos{File: root.File, Line: 1, Column: 1}, "",
			"there is neither mcpServers nor servers in the file")
	}
	return servers, ok
}

// decode reads the definition of s. It returns false for a disabled server, and after reporting an error.
func (f *mcpFile) decode(s *mcpServer) bool {
	if s.node.Kind != strict.Map {
		f.Add(s.node.Pos, "", "%s: want an object", s.path)
		return false
	}
	for _, key := range []string{"args", "env", "headers"} {
		s.node.TextsOf(key)
	}
	before := len(f.Diagnostics)
	d := strict.Decoder{
		Report: f.Report,
		Exact:  true,
		Unknown: func(key strict.Field, known []string, message string) {
			f.note(key.Pos, strict.DidYouMean(key.Key, known), "%s", message)
		},
	}
	d.Decode(s.path, s.node, &s.definition)
	if strict.Failed(f.Diagnostics[before:]) {
		return false
	}
	if s.definition.Disabled {
		f.note(s.node.Pos, "", "%s is disabled in the file", s.path)
		return false
	}
	s.places = d.Positions
	if s.definition.HTTPURL != "" {
		s.definition.Type, s.definition.URL = "http", s.definition.HTTPURL
	}
	s.definition.rewrite(func(text string) string { return strings.ReplaceAll(text, "${env:", "${") })
	f.splitLine(s)
	text, _ := json.Marshal(s.definition) // strings only
	s.asksUser = bytes.Contains(text, []byte("${input:"))
	return true
}

// splitLine splits a command that is a whole line, which some clients pass to a shell.
func (f *mcpFile) splitLine(s *mcpServer) {
	d := &s.definition
	words, ok := text.WholeLine(d.Command, d.Args)
	if !ok {
		return
	}
	d.Command, d.Args = words[0], words[1:]
	f.note(s.at("command"), "write the arguments in args", "%s: its command is a whole line, and is split into words",
		s.path)
}

// at returns the position of a key of the definition, or of the server if the key is "" or missing.
func (s *mcpServer) at(key string) strict.Pos {
	if pos, ok := s.places[s.path+"."+key]; ok {
		return pos
	}
	return s.node.Pos
}

// rewrite replaces every value that may contain variables.
func (d *mcpDefinition) rewrite(f func(string) string) {
	d.Command, d.Cwd, d.URL = f(d.Command), f(d.Cwd), f(d.URL)
	for i := range d.Args {
		d.Args[i] = f(d.Args[i])
	}
	for _, m := range []map[string]string{d.Env, d.Headers} {
		for key := range m {
			m[key] = f(m[key])
		}
	}
}
