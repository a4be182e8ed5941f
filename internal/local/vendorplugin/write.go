package vendorplugin

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/manifest"
)

// Bounds of texts in the manifest, in bytes.
const (
	maxDescription = 500
	maxMeta        = 300
)

// TOML returns the plugin.toml that runs the plugin from the folder that holds its files.
func (p *Plugin) TOML() []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s%s, a plugin of %s. Its files are those of exthost.lock; extensions.entries.%s changes what it may.",
		manifest.TranslatedMark, p.Manifest, p.Format, p.ID)
	line("[plugin]\nid = %s\nversion = %s", text.Literal(p.ID), text.Literal(manifest.SemanticVersion(p.Version)))
	if said := strings.Join(strings.Fields(display.Visible(p.Description)), " "); said != "" {
		line("description = %s", text.Literal(display.Cut(said, maxDescription)))
	}
	main := p.main()
	p.requires(line, main)
	if main != nil {
		line("\n[transport]\nkind = %s\nprotocol = \"mcp\"", text.Literal(main.Type))
		main.write(line)
	}
	if len(p.Servers) == 0 || main != nil && len(p.Servers) == 1 {
		line("\n[mcp_servers]") // none: the plugin's .mcp.json would be read otherwise
	}
	for i := range p.Servers {
		s := &p.Servers[i]
		if s == main {
			continue
		}
		line("\n[mcp_servers.%s]\ntype = %s", text.Literal(s.ID), text.Literal(s.Type))
		s.write(line)
		if len(s.Asks) > 0 {
			line("requires_env = %s", text.LiteralList(s.Asks))
		}
	}
	for _, h := range p.Hooks {
		writeHook(line, h)
	}
	p.writeMeta(line)
	return b.Bytes()
}

// requires writes what the plugin needs, and how long its servers may take.
func (p *Plugin) requires(line func(string, ...any), main *Server) {
	asks := main != nil && len(main.Asks) > 0
	if asks || len(p.Hints) > 0 {
		line("\n[requires]")
	}
	if asks {
		line("env = %s", text.LiteralList(main.Asks))
	}
	if len(p.Hints) > 0 {
		line("hint = %s", text.LiteralMap(p.Hints, " = "))
	}
	if p.StartTimeout > 0 || p.CallTimeout > 0 {
		line("\n[runtime]")
	}
	if p.StartTimeout > 0 {
		line("start_timeout = %s", text.Literal(p.StartTimeout.String()))
	}
	if p.CallTimeout > 0 {
		line("call_timeout = %s", text.Literal(p.CallTimeout.String()))
	}
}

// main returns the server that is the extension itself and not one of its servers, nil if none is: the one with the
// plugin's name. What it requires must not keep hooks, skills or other servers from being used.
func (p *Plugin) main() *Server {
	for i := range p.Servers {
		if s := &p.Servers[i]; s.ID == p.ID {
			if len(s.Asks) == 0 || len(p.Servers) == 1 && len(p.Hooks)+len(p.Skills) == 0 {
				return s
			}
		}
	}
	return nil
}

// ExtensionID returns the id of the extension that a server becomes.
func (p *Plugin) ExtensionID(s *Server) string {
	if main := p.main(); main != nil && main.ID == s.ID {
		return p.ID
	}
	return manifest.ServerID(p.ID, s.ID)
}

func (s *Server) write(line func(string, ...any)) {
	if s.Type != manifest.KindStdio {
		line("url = %s", text.Literal(s.URL))
		if len(s.Headers) > 0 {
			line("headers = %s", text.LiteralMap(s.Headers, " = "))
		}
		return
	}
	line("command = %s", text.Literal(s.Command))
	if len(s.Args) > 0 {
		line("args = %s", text.LiteralList(s.Args))
	}
	if len(s.Env) > 0 {
		line("env = %s", text.LiteralMap(s.Env, " = "))
	}
	if s.Cwd != "" {
		line("cwd = %s", text.Literal(s.Cwd))
	}
}

func writeHook(line func(string, ...any), h manifest.HookSpec) {
	line("\n[[hooks]]\nevent = %s", text.Literal(h.Event))
	if h.Matcher != "" {
		line("matcher = %s", text.Literal(h.Matcher))
	}
	line("command = %s", text.LiteralList(h.Command))
	if h.Timeout != nil {
		line("timeout = %s", text.Literal(h.Timeout.Std().String()))
	}
	line("on_error = %s", text.Literal(h.OnError))
}

func (p *Plugin) writeMeta(line func(string, ...any)) {
	meta := map[string]string{"author": p.Author, "license": p.License}
	if strings.HasPrefix(p.Homepage, "https://") {
		meta["homepage"] = p.Homepage
	}
	maps.DeleteFunc(meta, func(_, value string) bool { return value == "" })
	if len(meta) == 0 {
		return
	}
	line("\n[meta]")
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		line("%s = %s", key, text.Literal(display.Cut(display.Visible(meta[key]), maxMeta)))
	}
}
