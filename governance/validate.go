package governance

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/protocol"
)

// Problem is one error in a [Spec]. The package that reads the file adds the position.
type Problem struct {
	Field   string // the dotted key within the spec: "mcp.url"; "" is the spec itself
	Message string
	Hint    string
}

type problems []Problem

func (p *problems) add(field, hint, format string, args ...any) {
	*p = append(*p, Problem{Field: field, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// only reports each field in stated that is true: the spec states it although it does not apply to
// its kind or protocol.
func (p *problems) only(stated map[string]bool, reason, hint string) {
	for _, field := range slices.Sorted(maps.Keys(stated)) {
		if stated[field] {
			p.add(field, hint, "%s is %s", field[strings.LastIndexByte(field, '.')+1:], reason)
		}
	}
}

// Validate returns every error in s. Call [Spec.Normalize] first.
func (s *Spec) Validate() []Problem {
	var p problems
	switch {
	case strings.TrimSpace(s.Name) == "":
		p.add("name", "", "a policy needs a name")
	case s.Name != strings.TrimSpace(s.Name) || strings.ContainsFunc(s.Name, func(c rune) bool { return c < ' ' }):
		p.add("name", "", "%q has blanks around it or control characters in it", s.Name)
	}
	categories := "one of " + strings.Join(s.Category.Values(), ", ")
	switch {
	case s.Category == "":
		p.add("category", categories, "a policy needs a category")
	case !slices.Contains(s.Category.Values(), string(s.Category)):
		p.add("category", categories, "%q is no category", s.Category)
	}
	if s.Mode != ModeEnforce && s.Mode != ModeShadow {
		p.add("mode", "enforce or shadow", "%q is no mode", s.Mode)
	}
	s.validateKind(&p)
	s.Match.validate(&p)
	p.env("env", s.Env)
	if len(s.Conditions) > 0 {
		p.add("conditions", "state match, or one policy for each alternative",
			"only tools and server_ids of a single condition can be expressed, and not beside match.tools or "+
				"match.extensions")
	}
	return p
}

func (s *Spec) validateKind(p *problems) {
	process := map[string]bool{"cmd": s.Cmd != nil, "env": s.Env != nil, "cwd": s.Cwd != ""}
	if s.Kind != KindGRPC {
		p.only(map[string]bool{"commit_hash": s.CommitHash != ""}, "for kind grpc only", "")
	}
	if s.Kind != KindMCP {
		p.only(map[string]bool{"hooks": s.Hooks != nil, "mcp": s.MCP != nil}, "for kind mcp only", "")
	}
	switch s.Kind {
	case KindBuiltin:
		p.only(process, "for policies with a process, not for kind builtin",
			"leave it out, or state kind: grpc or native")
	case KindGRPC, KindNative:
		p.command("cmd", s.Cmd)
	case KindMCP:
		p.only(process, "stated inside mcp for kind mcp", "move it there")
		if s.Config != nil {
			p.add("config", "configure the plugin where its server runs",
				"a policy of kind mcp is configured by its own server")
		}
		if s.MCP == nil {
			p.add("", "", "a policy of kind mcp needs an mcp block")
			return
		}
		s.MCP.validate(p)
	case kindExternal:
		p.add("kind", "", "a policy of kind external needs an mcp block")
	}
}

func (m *MCP) validate(p *problems) {
	switch m.Proto {
	case "":
		p.add("mcp.proto", "", "mcp needs a proto: STDIO, STREAMABLEHTTP or SSE")
	case ProtoStdio:
		p.only(map[string]bool{"mcp.url": m.URL != ""}, "for STREAMABLEHTTP and SSE only", "")
		m.validateStdio(p)
	case ProtoStreamableHTTP, ProtoSSE:
		p.only(map[string]bool{
			"mcp.cmd":    m.Cmd != nil,
			"mcp.script": m.Script != "",
			"mcp.env":    m.Env != nil,
			"mcp.cwd":    m.Cwd != "",
		},
			"for STDIO only", "")
		if problem := badURL(m.URL); problem != "" {
			p.add("mcp.url", "", "%s", problem)
		}
	}
}

func (m *MCP) validateStdio(p *problems) {
	switch {
	case m.Script != "" && m.Cmd != nil:
		p.add("mcp.script", "keep one of the two", "script and cmd exclude each other")
	case m.Script == "" && m.Cmd == nil:
		p.add("mcp", "", "proto STDIO needs a cmd or a script")
	case m.Script == "":
		p.command("mcp.cmd", m.Cmd)
	}
	p.env("mcp.env", m.Env)
}

func (p *problems) command(field string, argv []string) {
	switch {
	case len(argv) == 0:
		p.add(field, `such as cmd: ["./policy", "--verbose"]`, "cmd is needed")
	case strings.TrimSpace(argv[0]) == "":
		p.add(field, "", "the command is blank")
	case slices.ContainsFunc(argv, func(s string) bool { return strings.ContainsRune(s, 0) }):
		p.add(field, "", "no argument can hold a NUL")
	}
}

func (p *problems) env(field string, env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if strings.TrimSpace(name) == "" || strings.ContainsAny(name, "=\x00") {
			p.add(field, "", "%q is not a variable's name", name)
		}
	}
}

// directions are the values that Match.Direction selects from.
var directions = []string{toExtension, toCaller}

const (
	toExtension = "to_extension"
	toCaller    = "to_caller"
)

// Direction returns the direction of the request, as a value of Match.Direction.
func (x *Exchange) Direction() string {
	if x.ToChild {
		return toExtension
	}
	return toCaller
}

// Selects reports whether m leaves out exchanges that extensions get.
func (m *Match) Selects() bool {
	toCallers := len(m.Direction) > 0 && !glob.List(m.Direction).Match(toExtension)
	return toCallers ||
		len(m.Tools)+len(m.Extensions)+len(m.Methods)+len(m.Callers)+len(m.Nodes)+len(m.Risk) > 0
}

func (m *Match) matches(x *Exchange) bool {
	fits := func(globs glob.List, name string) bool { return len(globs) == 0 || globs.Match(name) }
	return fits(m.Tools, x.Tool) && fits(m.Extensions, x.Extension) && fits(m.Methods, x.Method) &&
		fits(m.Callers, x.Caller) && (len(m.Nodes) == 0 || x.IsFrom(m.Nodes)) && fits(m.Direction, x.Direction()) &&
		(len(m.Risk) == 0 || slices.Contains(m.Risk, x.ToolRisk()))
}

func (m Match) validate(p *problems) {
	for _, risk := range m.Risk { // files are checked as they are decoded
		if !slices.Contains(protocol.Risks(), risk) {
			p.add("match.risk", "read, write or destroy", "%q is no risk", risk)
		}
	}
	lists := []struct {
		field string
		globs []string
	}{
		{"tools", m.Tools},
		{"extensions", m.Extensions},
		{"methods", m.Methods},
		{"callers", m.Callers},
		{"nodes", m.Nodes},
		{"direction", m.Direction},
	}
	for _, list := range lists {
		for _, pattern := range list.globs {
			if glob.Check(pattern) != nil {
				p.add("match."+list.field, "* is any text, ? any character, [a-z] one of them", "%q is not a glob",
					pattern)
			} else if list.field == "direction" &&
				!slices.ContainsFunc(directions, func(d string) bool { return glob.Match(pattern, d) }) {
				p.add("match.direction", "to_extension or to_caller", "%q matches no direction", pattern)
			}
		}
	}
}

// badURL returns the error in the URL of a policy's server, "" when there is none.
func badURL(raw string) string {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return "a url is needed, such as https://example.com/mcp"
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "the url is not an http or https address"
	case u.User != nil:
		return "the url holds credentials, which end up in logs"
	case len(raw) > 2048:
		return "the url is longer than 2048 bytes"
	}
	return ""
}
