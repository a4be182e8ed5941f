package manifest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/strict"
	"github.com/exthost/exthost/protocol"
)

// SidecarName is the file beside a manifest in which other clients keep their MCP
// servers.
const SidecarName = ".mcp.json"

// ServerID returns the id of the extension that an owner's MCP server becomes:
// {owner}.{name}, the name in lower case with _ for every other character. It
// is "" when the name is empty or longer than [MaxIDLength].
func ServerID(owner, name string) string {
	if name == "" || len(name) > MaxIDLength {
		return ""
	}
	return owner + "." + strings.ToLower(notInName.ReplaceAllString(name, "_"))
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// jsonServer is a server as the JSON files of other clients write it.
type jsonServer struct {
	Type     string            `json:"type" alias:"transport"`
	Command  string            `json:"command"`
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env"`
	Cwd      string            `json:"cwd"`
	URL      string            `json:"url"`
	HTTPURL  string            `json:"httpUrl"`
	Headers  map[string]string `json:"headers"`
	Disabled bool              `json:"disabled"`
}

// ParseSidecar reads the MCP servers of a .mcp.json: the members of
// `mcpServers` or `servers`, with comments and trailing commas allowed. It is
// lenient: unknown keys are reported at Info, and an invalid server is an Error
// that leaves the other servers usable. The map is nil when the file as a whole
// cannot be used.
func ParseSidecar(path string, data []byte) (map[string]Server, []protocol.Diagnostic) {
	p := sidecarParser{Report: &strict.Report{Code: CodeSidecar}, servers: map[string]Server{}}
	root := read(path, data, p.Report, strict.JSON)
	if root == nil {
		return nil, p.Diagnostics
	}
	found := false
	for _, f := range root.Fields {
		switch f.Key {
		case "mcpServers", "servers", "mcp_servers":
			found = true
			p.list(f)
		default:
			p.note(f.Pos, "", "%q is not used", f.Key)
		}
	}
	if !found {
		p.Add(strict.Pos{File: path, Line: 1, Column: 1}, "", "there is neither mcpServers nor servers in the file")
		return nil, p.Diagnostics
	}
	sortByPosition(p.Diagnostics)
	return p.servers, p.Diagnostics
}

type sidecarParser struct {
	*strict.Report
	servers map[string]Server
	ids     []string
}

func (p *sidecarParser) note(pos strict.Pos, hint, format string, args ...any) {
	p.Diagnose(protocol.LevelInfo, CodeSidecarNote, pos, hint, format, args...)
}

// list reads every server of one list.
func (p *sidecarParser) list(f strict.Field) {
	if f.Value.Kind != strict.Map {
		p.Add(f.Pos, "", "%s: want an object of servers", f.Key)
		return
	}
	for _, server := range f.Value.Fields {
		id := ServerID("", server.Key)
		switch {
		case id == "":
			p.Add(server.Pos, "", "%q is not a server's name: 1 to %d characters", server.Key, MaxIDLength)
		case slices.Contains(p.ids, id):
			p.Add(server.Pos, "rename one of them", "there is a server named like %q already; the first one is kept", server.Key)
		default:
			p.ids = append(p.ids, id)
			p.server(server.Key, f.Key+"."+server.Key, server.Value)
		}
	}
}

// server reads one server. Its errors leave the other servers alone.
func (p *sidecarParser) server(name, where string, n *strict.Node) {
	if n.Kind != strict.Map {
		p.Add(n.Pos, "", "%s: want an object", where)
		return
	}
	before := len(p.Diagnostics)
	var j jsonServer
	d := strict.Decoder{Report: p.Report, Exact: true, Unknown: func(f strict.Field, known []string, message string) {
		p.note(f.Pos, strict.DidYouMean(f.Key, known), "%s", message)
	}}
	d.Decode(where, n, &j)
	if strict.Failed(p.Diagnostics[before:]) {
		return
	}
	if j.Disabled {
		p.note(n.Pos, "", "%s is disabled in the file", where)
		return
	}
	at := func(key string) strict.Pos {
		pos, _ := d.Positions.At(where + "." + key)
		return pos
	}
	s, guess := j.server().Complete()
	problems := s.Validate()
	if text, _ := json.Marshal(s); bytes.Contains(text, []byte("${input:")) {
		problems = append(problems, Problem{Message: "it asks the user for a value with ${input:…}, which only an editor can",
			Hint: "name a variable of the environment instead: ${NAME}"})
	}
	for _, problem := range problems {
		p.Add(at(problem.Field), problem.Hint, "%s: %s", where, problem.Message)
	}
	if len(problems) > 0 {
		return
	}
	if guess != "" {
		p.note(at("url"), "state the type", "%s: %s", where, guess)
	}
	p.servers[name] = s
}

// server converts j. VS Code's ${env:NAME} becomes ${NAME}.
func (j jsonServer) server() Server {
	s := Server{Type: j.Type, Command: j.Command, Args: j.Args, Env: j.Env, Cwd: j.Cwd, URL: j.URL, Headers: j.Headers}
	if j.HTTPURL != "" { // of Gemini, whose url is that of an SSE server
		s.Type, s.URL = KindHTTP, j.HTTPURL
	}
	s.rewrite(func(text string) string { return strings.ReplaceAll(text, "${env:", "${") })
	return s
}

// rewrite replaces every text of s that may have variables.
func (s *Server) rewrite(f func(string) string) {
	s.Command, s.Cwd, s.URL = f(s.Command), f(s.Cwd), f(s.URL)
	for i := range s.Args {
		s.Args[i] = f(s.Args[i])
	}
	for _, m := range []map[string]string{s.Env, s.Headers} {
		for key := range m {
			m[key] = f(m[key])
		}
	}
}
