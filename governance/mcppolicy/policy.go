// Package mcppolicy asks policies that run as plugins of an MCP server with the tools
// get_plugin_configs, get_plugin_config and invoke_hook. One such server holds any number of
// plugins, each with its own hooks.
//
// The method and the flow of an exchange select the hook. The policy allows an exchange for which
// there is no hook or the plugin does not serve it.
package mcppolicy

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Caller is the MCP server of a policy, initialized.
type Caller interface {
	Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
}

// Policy is one plugin of a plugin server.
type Policy struct {
	name    string
	content bool // category content: changes take effect
	caller  Caller
	hooks   map[string]bool // the hooks to invoke
	states  states
}

var _ governance.Policy = (*Policy)(nil)

// Open queries the server behind c for the plugin of s, which must be normalized and valid. The
// policy invokes the hooks that s lists, else all hooks of the plugin. The error is that of c;
// HandshakeInvalid when the server has no such plugin or has disabled it; or ConfigInvalid when a
// hook of s cannot be invoked.
func Open(ctx context.Context, s governance.Spec, c Caller) (*Policy, error) {
	p := &Policy{name: s.Name, content: s.Category == governance.Content, caller: c, hooks: make(map[string]bool)}
	config, err := p.config(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range config.Hooks {
		if _, known := byName[name]; known {
			p.hooks[name] = true
		}
	}
	for _, name := range s.Hooks {
		if _, known := byName[name]; !known {
			return nil, protocol.Errorf(protocol.ConfigInvalid, "hooks: %s is never invoked; there are %s", name,
				strings.Join(hookNames(), ", "))
		}
		if !p.hooks[name] {
			return nil, protocol.Errorf(protocol.ConfigInvalid, "hooks: the plugin does not serve %s; it serves %s",
				name, strings.Join(config.Hooks, ", "))
		}
	}
	if len(s.Hooks) > 0 {
		for name := range p.hooks {
			p.hooks[name] = slices.Contains(s.Hooks, name)
		}
	}
	if len(p.hooks) == 0 {
		return nil, protocol.Errorf(protocol.HandshakeInvalid,
			"the plugin serves none of %s, so it would never be asked; it serves: %s",
			strings.Join(hookNames(), ", "), strings.Join(config.Hooks, ", "))
	}
	return p, nil
}

// config is the part of a plugin's configuration that a host needs.
type config struct {
	Name  string   `json:"name"`
	Mode  string   `json:"mode"`
	Hooks []string `json:"hooks"`
}

func (p *Policy) config(ctx context.Context) (config, error) {
	var c config
	texts, err := p.call(ctx, "get_plugin_config",
		rawjson.Set(json.RawMessage("{}"), "name", rawjson.AppendText(nil, p.name)))
	if err != nil {
		return c, err
	}
	for _, text := range texts {
		if err := json.Unmarshal(text, &c); err != nil {
			return c, protocol.Errorf(protocol.HandshakeInvalid, "its answer to get_plugin_config cannot be read: %w",
				err)
		}
	}
	switch {
	case c.Name == "":
		return c, p.notFound(ctx)
	case c.Mode == "disabled":
		return c, protocol.Errorf(protocol.HandshakeInvalid,
			"the plugin is disabled where its server runs; enable it there, or set disabled here")
	}
	return c, nil
}

func (p *Policy) notFound(ctx context.Context) error {
	texts, err := p.call(ctx, "get_plugin_configs", json.RawMessage("{}"))
	if err != nil {
		return err
	}
	var names []string
	for _, text := range texts {
		var one config
		var many []config
		if json.Unmarshal(text, &one) == nil {
			many = append(many, one)
		} else {
			_ = json.Unmarshal(text, &many) // on an error, no names
		}
		for _, c := range many {
			names = append(names, c.Name)
		}
	}
	hint := ""
	if near := text.Nearest(p.name, names); near != "" {
		hint = " (" + near + "?)"
	}
	return protocol.Errorf(protocol.HandshakeInvalid, "the server has no plugin %q%s; it has: %s", p.name, hint,
		strings.Join(names, ", "))
}

// call calls a tool of the server and returns the JSON of its text blocks, or its
// structured content when there are none.
func (p *Policy) call(ctx context.Context, tool string, arguments json.RawMessage) ([]json.RawMessage, error) {
	params := append(make([]byte, 0, len(arguments)+64), `{"name":"`...)
	params = append(append(append(params, tool...), `","arguments":`...), arguments...)
	raw, err := p.caller.Call(ctx, protocol.MethodToolsCall, append(params, '}'))
	if err != nil {
		return nil, err
	}
	result := protocol.ToolResult(raw)
	if result.IsError() {
		return nil, protocol.Errorf(protocol.ExtensionError, "%s failed: %s", tool, strings.TrimSpace(result.Text()))
	}
	var blocks []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(rawjson.Get(raw, "content"), &blocks); err != nil {
		return nil, protocol.Errorf(protocol.InvalidResponse, "the result of %s has no content: %w", tool, err)
	}
	var texts []json.RawMessage
	for _, b := range blocks {
		if text := bytes.TrimSpace([]byte(b.Text)); b.Type == "text" && len(text) > 0 {
			texts = append(texts, text)
		}
	}
	if structured := result.Structured(); len(texts) == 0 && structured != nil {
		texts = append(texts, structured)
	}
	return texts, nil
}
