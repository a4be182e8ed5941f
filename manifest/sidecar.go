package manifest

import (
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

// SidecarName is the name of the file beside a manifest in which other clients list MCP servers.
const SidecarName = ".mcp.json"

// ServerID returns the extension id of an owner's MCP server: {owner}.{name}, the name in lower case with _ for
// every other character. It returns "" if the name is empty or the result longer than [MaxIDLength].
func ServerID(owner, name string) string {
	if name == "" || len(name) > MaxIDLength {
		return ""
	}
	return owner + "." + strings.ToLower(notInName.ReplaceAllString(name, "_"))
}

// OwnerOf returns the owner of the server with an id of [ServerID], the id itself if it is no server's. A plugin's name
// may have periods, the name of a server has none.
func OwnerOf(id string) (owner string, server bool) {
	at := strings.LastIndexByte(id, '.')
	if at < 0 {
		return id, false
	}
	return id[:at], true
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// ParseSidecar reads the MCP servers of a .mcp.json from `mcpServers` or `servers`; comments and trailing commas
// are allowed. It is lenient: an unknown key is an Info, and an invalid server is an Error that leaves the others
// usable. The map is nil if the file itself is invalid.
func ParseSidecar(path string, data []byte) (map[string]Server, []protocol.Diagnostic) {
	f := mcpFile{&strict.Report{Code: CodeSidecar}}
	root := read(path, data, f.Report, strict.JSON)
	if root == nil {
		return nil, f.Diagnostics
	}
	found, ok := f.servers(root)
	if !ok {
		return nil, f.Diagnostics
	}
	servers, ids := map[string]Server{}, []string{}
	for _, s := range found {
		switch id := ServerID("", s.name); {
		case id == "":
			f.Add(s.at(""), "", "%q is not a server's name: 1 to %d characters", s.name, MaxIDLength)
		case slices.Contains(ids, id):
			f.Add(s.at(""), "rename one of them", "there is a server named like %q already; the first one is kept",
				s.name)
		default:
			ids = append(ids, id)
			if !f.decode(s) {
				continue
			}
			if server, ok := f.checked(s); ok {
				servers[s.name] = server
			}
		}
	}
	sortByPosition(f.Diagnostics)
	return servers, f.Diagnostics
}

// checked returns the server if it is valid. ok is false after an error.
func (f *mcpFile) checked(found *mcpServer) (s Server, ok bool) {
	d := found.definition
	s = Server{Type: d.Type, Command: d.Command, Args: d.Args, Env: d.Env, Cwd: d.Cwd, URL: d.URL, Headers: d.Headers}
	s, guess := s.Complete()
	problems := s.Validate()
	if found.asksUser {
		problems = append(problems,
			Problem{Message: "it asks the user for a value with ${input:…}, which only an editor can",
				Hint: "name a variable of the environment instead: ${NAME}"})
	}
	for _, p := range problems {
		f.Add(found.at(p.Field), p.Hint, "%s: %s", found.path, p.Message)
	}
	if guess != "" && len(problems) == 0 {
		f.note(found.at("url"), "state the type", "%s: %s", found.path, guess)
	}
	return s, len(problems) == 0
}
