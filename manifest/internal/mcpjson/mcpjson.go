// Package mcpjson reads the MCP servers of a .mcp.json as other clients write them.
package mcpjson

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/internal/text/shellwords"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

// File is a file being read.
type File struct {
	*strict.Report
	NoteCode string // of diagnostics at Info
}

// Server is one server. [File.Decode] fills in Definition, replaces VS Code's ${env:NAME} by ${NAME} and moves
// HTTPURL to the URL of a server of type http.
type Server struct {
	Name       string
	Path       string // in the file: servers.NAME
	Definition Definition
	AsksUser   bool // a value contains ${input:NAME}

	node   *strict.Node
	places strict.Positions
}

// Definition is the value of a server.
type Definition struct {
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

// Note reports an Info.
func (f *File) Note(pos strict.Pos, hint, format string, args ...any) {
	f.Diagnose(protocol.LevelInfo, f.NoteCode, pos, hint, format, args...)
}

// Servers returns the members of mcpServers and servers. If root has neither, it reports an error and ok is false.
func (f *File) Servers(root *strict.Node) (servers []*Server, ok bool) {
	for _, list := range root.Fields {
		switch list.Key {
		case "mcpServers", "servers", "mcp_servers":
			ok = true
		default:
			f.Note(list.Pos, "", "%q is not used", list.Key)
			continue
		}
		if list.Value.Kind != strict.Map {
			f.Add(list.Pos, "", "%s: want an object of servers", list.Key)
		}
		for _, server := range list.Value.Fields {
			servers = append(servers, &Server{Name: server.Key, Path: list.Key + "." + server.Key, node: server.Value})
		}
	}
	if !ok {
		f.Add(strict.Pos{File: root.File, Line: 1, Column: 1}, "",
			"there is neither mcpServers nor servers in the file")
	}
	return servers, ok
}

// Decode reads the definition of s. It returns false for a disabled server, and after reporting an error.
func (f *File) Decode(s *Server) bool {
	if s.node.Kind != strict.Map {
		f.Add(s.node.Pos, "", "%s: want an object", s.Path)
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
			f.Note(key.Pos, strict.DidYouMean(key.Key, known), "%s", message)
		},
	}
	d.Decode(s.Path, s.node, &s.Definition)
	if strict.Failed(f.Diagnostics[before:]) {
		return false
	}
	if s.Definition.Disabled {
		f.Note(s.node.Pos, "", "%s is disabled in the file", s.Path)
		return false
	}
	s.places = d.Positions
	if s.Definition.HTTPURL != "" {
		s.Definition.Type, s.Definition.URL = "http", s.Definition.HTTPURL
	}
	s.Definition.rewrite(func(text string) string { return strings.ReplaceAll(text, "${env:", "${") })
	f.splitLine(s)
	text, _ := json.Marshal(s.Definition) // strings only
	s.AsksUser = bytes.Contains(text, []byte("${input:"))
	return true
}

// splitLine splits a command that is a whole line, which some clients pass to a shell.
func (f *File) splitLine(s *Server) {
	d := &s.Definition
	words, ok := shellwords.Line(d.Command, d.Args)
	if !ok {
		return
	}
	d.Command, d.Args = words[0], words[1:]
	f.Note(s.At("command"), "write the arguments in args", "%s: its command is a whole line, and is split into words",
		s.Path)
}

// At returns the position of a key of the definition, or of the server if the key is "" or missing.
func (s *Server) At(key string) strict.Pos {
	if pos, ok := s.places[s.Path+"."+key]; ok {
		return pos
	}
	return s.node.Pos
}

// rewrite replaces every value that may contain variables.
func (d *Definition) rewrite(f func(string) string) {
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
