package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/exthost/exthost/protocol"
)

// SidecarName is the file beside a manifest that other clients keep their MCP
// servers in.
const SidecarName = ".mcp.json"

// ServerID returns the id of the extension that an owner's MCP server becomes:
// {owner}.{name}, the name in lower case with _ for every other character. It
// is "" when the name is empty or longer than [MaxIDLength].
func ServerID(owner, name string) string {
	if name == "" || len(name) > MaxIDLength {
		return ""
	}
	return owner + "." + strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
}

// jsonServer is a server as the JSON files of other clients write it.
type jsonServer struct {
	Type     string            `toml:"type" alias:"transport"`
	Command  string            `toml:"command"`
	Args     []string          `toml:"args"`
	Env      map[string]string `toml:"env"`
	Cwd      string            `toml:"cwd"`
	URL      string            `toml:"url"`
	HTTPURL  string            `toml:"httpUrl"`
	Headers  map[string]string `toml:"headers"`
	Disabled bool              `toml:"disabled"`
}

// ParseSidecar reads the MCP servers of a .mcp.json: the members of
// `mcpServers` or `servers`, with comments and trailing commas allowed. It is
// lenient: keys it does not know are noted at Info, and a server that cannot be
// used is an Error that leaves the others alone. The map is nil when the file
// as a whole is no such file.
func ParseSidecar(path string, data []byte) (map[string]Server, []protocol.Diagnostic) {
	s, ok := newSource(path, CodeSidecar, data)
	if !ok {
		return nil, s.diags
	}
	root := s.readJSON()
	if root == nil {
		return nil, s.diags
	}
	p := sidecarParser{decoder: decoder{source: s, lenient: true}, servers: map[string]Server{}}
	found := false
	for _, m := range root.Members {
		switch name := m.Name.Value.(hujson.Literal).String(); name {
		case "mcpServers", "servers", "mcp_servers":
			found = true
			p.list(m, name)
		default:
			s.diagnose(protocol.LevelInfo, CodeSidecarNote, m.Name.StartOffset, "", "%q is not used", name)
		}
	}
	if !found {
		s.errorAt(0, "", "there is neither mcpServers nor servers in the file")
		return nil, s.diags
	}
	sortByPosition(s.diags)
	return p.servers, s.diags
}

// readJSON returns the object that a JSON text with comments holds, or nil
// after one diagnostic.
func (s *source) readJSON() *hujson.Object {
	if off := tooDeep(s.text); off >= 0 {
		s.diagnose(protocol.LevelError, CodeTooLarge, off, "", "more than %d levels of objects and arrays", maxDepth)
		return nil
	}
	v, err := hujson.Parse([]byte(s.text))
	if err != nil {
		var line, column int
		text := strings.TrimPrefix(err.Error(), "hujson: ")
		if n, _ := fmt.Sscanf(text, "line %d, column %d:", &line, &column); n == 2 && line <= len(s.lines) {
			_, text, _ = strings.Cut(text, ": ")
			s.errorAt(s.lines[line-1]+column-1, "", "%s", text)
		} else {
			s.errorAt(0, "", "%s", text)
		}
		return nil
	}
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		s.errorAt(v.StartOffset, "", "the file is not a JSON object")
	}
	return o
}

// tooDeep returns where brackets nest too deeply, or -1. Strings and comments
// do not count.
func tooDeep(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		skip := 0
		switch rest := text[i:]; {
		case rest[0] == '[' || rest[0] == '{':
			if depth++; depth > maxDepth {
				return i
			}
		case rest[0] == ']' || rest[0] == '}':
			depth--
		case rest[0] == '"':
			skip = closing(rest)
		case strings.HasPrefix(rest, "//"):
			skip = strings.IndexByte(rest, '\n')
		case strings.HasPrefix(rest, "/*"):
			if skip = strings.Index(rest[2:], "*/"); skip >= 0 {
				skip += 3
			}
		}
		if skip < 0 {
			return -1 // open to the end: nothing nests there
		}
		i += skip
	}
	return -1
}

// closing returns the index of the quote that ends the string at the start of
// text, or -1.
func closing(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}

type sidecarParser struct {
	decoder
	servers map[string]Server
	ids     []string
}

// list reads every server of one list.
func (p *sidecarParser) list(m hujson.ObjectMember, key string) {
	o, ok := m.Value.Value.(*hujson.Object)
	if !ok {
		p.errorAt(m.Name.StartOffset, "", "%s: want an object of servers", key)
		return
	}
	for _, m := range o.Members {
		name := m.Name.Value.(hujson.Literal).String()
		id := ServerID("", name)
		switch {
		case id == "":
			p.errorAt(m.Name.StartOffset, "", "%q is not a server's name: 1 to %d characters", name, MaxIDLength)
		case slices.Contains(p.ids, id):
			p.errorAt(m.Name.StartOffset, "rename one of them", "there is a server named like %q already; the first one is kept", name)
		default:
			p.ids = append(p.ids, id)
			p.server(name, key+"."+name, m)
		}
	}
}

// server reads one server; whatever is wrong with it stays with it.
func (p *sidecarParser) server(name, where string, m hujson.ObjectMember) {
	n := &node{off: m.Name.StartOffset}
	v, ok := jsonValue(m.Value, n).(map[string]any)
	if !ok {
		p.errorAt(n.off, "", "%s: want an object", where)
		return
	}
	before := len(p.diags)
	var j jsonServer
	p.table(reflect.ValueOf(&j).Elem(), v, n, where)
	if failed(p.diags[before:]) {
		return
	}
	if j.Disabled {
		p.diagnose(protocol.LevelInfo, CodeSidecarNote, n.off, "", "%s is disabled in the file", where)
		return
	}
	s, guess := j.server().Complete()
	problems := s.Validate()
	if s.mentions("${input:") {
		problems = append(problems, Problem{Message: "it asks the user for a value with ${input:…}, which only an editor can",
			Hint: "name a variable of the environment instead: ${NAME}"})
	}
	for _, problem := range problems {
		p.errorAt(p.at(n.kid(problem.Field), n), problem.Hint, "%s: %s", where, problem.Message)
	}
	if len(problems) > 0 {
		return
	}
	if guess != "" {
		p.diagnose(protocol.LevelInfo, CodeSidecarNote, p.at(n.kid("url"), n), "state the type", "%s: %s", where, guess)
	}
	p.servers[name] = s
}

// server returns j in our terms, with VS Code's ${env:NAME} written ${NAME}.
func (j jsonServer) server() Server {
	s := Server{Type: j.Type, Command: j.Command, Args: j.Args, Env: j.Env, Cwd: j.Cwd, URL: j.URL, Headers: j.Headers}
	if j.HTTPURL != "" { // Gemini's: its url is SSE
		s.Type, s.URL = KindHTTP, j.HTTPURL
	}
	s.rewrite(func(text string) string { return strings.ReplaceAll(text, "${env:", "${") })
	return s
}

// rewrite replaces every text of s in which variables may stand.
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

func (s *Server) mentions(part string) (found bool) {
	s.rewrite(func(text string) string {
		found = found || strings.Contains(text, part)
		return text
	})
	return found
}

// jsonValue returns a value in Go's terms and notes where its parts stand.
func jsonValue(v hujson.Value, n *node) any {
	switch t := v.Value.(type) {
	case *hujson.Object:
		table := make(map[string]any, len(t.Members))
		for _, m := range t.Members {
			key := m.Name.Value.(hujson.Literal).String()
			table[key] = jsonValue(m.Value, n.add(key, m.Name.StartOffset))
		}
		return table
	case *hujson.Array:
		list := make([]any, len(t.Elements))
		for i, e := range t.Elements {
			item := &node{off: e.StartOffset}
			n.items = append(n.items, item)
			list[i] = jsonValue(e, item)
		}
		return list
	case hujson.Literal:
		var value any
		_ = json.Unmarshal(t, &value) // the parser let only valid literals through
		return value
	}
	return nil
}
