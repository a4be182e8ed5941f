package agentplugin

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// servers reads mcp.json, and adds the valid servers to m.
func (r *reading) servers(m *manifest.Manifest) {
	path := filepath.Join(r.dir, ServersName)
	data, no := r.file(ServersName)
	switch {
	case no != nil && no.diagnostic != nil:
		r.note(no.section, "%s", no.diagnostic.Message)
		r.report.Diagnostics = append(r.report.Diagnostics, *no.diagnostic)
		return
	case no != nil:
		r.disable(strict.Pos{File: path}, no.section, "no server is used: %s", no.text)
		return
	case data == nil:
		return
	}
	root, bad := parse(path, data)
	if bad != nil {
		r.disable(bad.Pos, "7.2.2", "no server is used: %s is not a JSON object: %s", ServersName, bad.Message)
		return
	}
	list := r.serversOf(root)
	if list == nil {
		return
	}
	m.MCPServers = make(map[string]manifest.Server, len(list.Fields))
	twice := repeated(list)
	for _, f := range list.Fields {
		s := Server{Name: f.Key, ID: ServerID(m.Plugin.ID, f.Key), Valid: true}
		e := entry{reading: r, name: f.Key, node: f.Value}
		var server manifest.Server
		if twice[f.Key] {
			e.invalid(f.Pos, "7.2.1", "there are two servers of this name")
		} else {
			server = e.server()
		}
		if e.reason == "" {
			m.MCPServers[f.Key] = server
		} else {
			s.Valid, s.Reason, s.Section = false, e.reason, e.section
		}
		r.plugin.Servers = append(r.plugin.Servers, s)
	}
	r.twins()
}

// serversOf checks the top level of mcp.json and returns mcpServers; nil if no server is used.
func (r *reading) serversOf(root *strict.Node) *strict.Node {
	before := len(r.report.Diagnostics)
	twice := repeated(root)
	for _, f := range root.Fields {
		switch {
		case twice[f.Key]:
			r.disable(f.Pos, "7.2.1", "no server is used: %s states %q twice", ServersName, f.Key)
		case f.Key != "$schema" && f.Key != "mcpServers":
			r.disable(f.Pos, "7.2.1", "no server is used: %q is not a field of %s", f.Key, ServersName)
		}
	}
	r.serversSchema(root)
	list := root.At("mcpServers")
	switch {
	case list == nil:
		r.disable(root.Pos, "7.2.1", "no server is used: %s has no mcpServers", ServersName)
	case list.Kind != strict.Map:
		r.disable(list.Pos, "7.2.1", "no server is used: mcpServers is not an object")
	case len(list.Fields) > maxServers:
		r.disable(list.Pos, "", "no server is used: %s has over %d of them", ServersName, maxServers)
	}
	if len(r.report.Diagnostics) > before {
		return nil
	}
	return list
}

// serversSchema checks that mcp.json is of the version of plugin.json.
func (r *reading) serversSchema(root *strict.Node) {
	switch n := root.At("$schema"); {
	case n == nil:
		r.disable(root.Pos, "7.2.1", "no server is used: %s has no $schema", ServersName)
	case n.Kind != strict.String:
		r.disable(n.Pos, "7.2.1", "no server is used: the $schema of %s is not a string", ServersName)
	case n.Text == ServersSchema:
	case versionOf(n.Text, "mcp") != "":
		r.disable(n.Pos, "10.1", "no server is used: %s is for version %q of Agent Plugins, and %s for 1.0.0",
			ServersName, short(versionOf(n.Text, "mcp"), 32), FileName)
	default:
		r.disable(n.Pos, "7.2.1", "no server is used: the $schema of %s is not that of Agent Plugins 1.0.0: %q",
			ServersName, short(n.Text, 200))
	}
}

// entry is one server being read. The first reason is the one that is reported.
type entry struct {
	*reading
	name            string
	node            *strict.Node
	reason, section string
}

// invalid reports why the server is skipped.
func (e *entry) invalid(pos strict.Pos, section, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if e.reason == "" {
		e.reason, e.section = text, section
	}
	e.report.Diagnose(protocol.LevelError, manifest.CodeSidecar, pos, "", "the server %q is not used: %s%s",
		short(e.name, 100), text, cite(section))
}

// fieldsOf are the fields of each type.
var fieldsOf = map[string][]string{
	"stdio":           {"type", "command", "args", "env", "cwd"},
	"streamable-http": {"type", "url", "headers"},
	"sse":             {"type", "url", "headers"},
}

// kinds are the transports of each type.
var kinds = map[string]string{
	"stdio":           manifest.KindStdio,
	"streamable-http": manifest.KindHTTP,
	"sse":             manifest.KindSSE,
}

func (e *entry) server() (s manifest.Server) {
	if e.node.Kind != strict.Map {
		e.invalid(e.node.Pos, "7.2.1", "it is not an object")
		return s
	}
	known := e.typed(&s)
	if known == nil {
		return s
	}
	twice := repeated(e.node)
	for _, f := range e.node.Fields {
		switch {
		case twice[f.Key]:
			e.invalid(f.Pos, "7.2.1", "it states %q twice", f.Key)
		case !slices.Contains(known, f.Key):
			e.invalid(f.Pos, "7.2.1", "%q is not a field of type %s", short(f.Key, 100), e.node.At("type").Text)
		}
	}
	if s.Type == manifest.KindStdio {
		e.stdio(&s)
	} else {
		e.remote(&s)
	}
	return s
}

// typed sets the type and returns the fields of that type; nil after an error.
func (e *entry) typed(s *manifest.Server) []string {
	n := e.node.At("type")
	switch {
	case n == nil:
		e.invalid(e.node.Pos, "7.2.1", "it has no type")
	case n.Kind != strict.String:
		e.invalid(n.Pos, "7.2.1", "type is not a string")
	case fieldsOf[n.Text] == nil:
		e.invalid(n.Pos, "7.2.1", "type is stdio, streamable-http or sse, not %q", short(n.Text, 100))
	default:
		s.Type = kinds[n.Text]
		return fieldsOf[n.Text]
	}
	return nil
}

// text returns the string of a field. ok is false if there is none, which is an error if it is required.
func (e *entry) text(key string, required bool) (text string, ok bool) {
	n := e.node.At(key)
	switch {
	case n == nil && required:
		e.invalid(e.node.Pos, "7.2.1", "%s is missing", key)
	case n == nil:
	case n.Kind != strict.String:
		e.invalid(n.Pos, "7.2.1", "%s is not a string", key)
	case n.Text == "" && required:
		e.invalid(n.Pos, "7.2.1", "%s is empty", key)
	default:
		return n.Text, true
	}
	return "", false
}

// texts returns an object of strings.
func (e *entry) texts(key string) map[string]string {
	n := e.node.At(key)
	if n == nil {
		return nil
	}
	if n.Kind != strict.Map {
		e.invalid(n.Pos, "7.2.1", "%s is not an object", key)
		return nil
	}
	all := make(map[string]string, len(n.Fields))
	twice := repeated(n)
	for _, f := range n.Fields {
		switch {
		case f.Value.Kind != strict.String:
			e.invalid(f.Pos, "7.2.1", "%s[%q] is not a string", key, short(f.Key, 100))
		case twice[f.Key]:
			e.invalid(f.Pos, "7.2.1", "%s states %q twice", key, short(f.Key, 100))
		}
		all[f.Key] = f.Value.Text
	}
	return all
}
