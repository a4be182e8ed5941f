package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// limits bound what one extension may offer.
var limits = struct {
	tools      int // descriptors of one handshake; the catalog has a lower limit, and reports what it drops
	pages      int // pages of one listing
	listed     int // bytes of all pages together
	descriptor int // bytes of one descriptor; longer ones are dropped
	hooks      int // hook names
}{tools: 16384, pages: 1024, listed: 64 << 20, descriptor: 256 << 10, hooks: 64}

// descriptors are the tools and hooks that an extension offers, unchecked.
type descriptors struct {
	tools []json.RawMessage
	hooks []string
	execs []manifest.HookSpec // hooks of the manifest
}

// review is the accepted part of descriptors, with diagnostics about the rest.
type review struct {
	extension   string
	tools       []protocol.Tool
	hooks       []string
	dropped     []string // names of tools that [capabilities] does not list
	diagnostics []protocol.Diagnostic
}

// reviewDescriptors checks the shape of every descriptor. It also checks the names against declared, the manifest's
// [capabilities]: a list admits only its names, a missing list admits all.
func reviewDescriptors(extension string, o descriptors, declared *manifest.Capabilities) *review {
	r := &review{extension: extension}
	names := r.readTools(o.tools)
	r.readHooks(o.hooks)
	if declared == nil {
		return r
	}
	if declared.Tools != nil {
		r.tools = slices.DeleteFunc(r.tools, func(t protocol.Tool) bool {
			if !r.undeclared("tool", declared.Tools, t.Name) {
				return false
			}
			r.dropped = append(r.dropped, t.Name)
			return true
		})
		r.missing("tool", declared.Tools, names)
	}
	if declared.Hooks != nil {
		offered := slices.Clone(r.hooks)
		for _, h := range o.execs {
			offered = append(offered, h.Event)
		}
		r.hooks = slices.DeleteFunc(r.hooks, func(h string) bool { return r.undeclared("hook", declared.Hooks, h) })
		r.missing("hook", declared.Hooks, offered)
	}
	return r
}

// readTools fills r.tools and returns the names of all well-formed tools, in order.
func (r *review) readTools(raws []json.RawMessage) (names []string) {
	seen := make(map[string]bool, len(raws))
	r.tools = make([]protocol.Tool, 0, len(raws))
	for i, raw := range raws {
		t, err := parseTool(raw)
		if err != nil {
			r.warn("tool_invalid", "the extension's author must fix it", "tool %d is dropped: %v", i+1, err)
			continue
		}
		if seen[t.Name] {
			r.warn("tool_duplicate", "", "tool %q is offered twice; the first one counts", t.Name)
			continue
		}
		seen[t.Name] = true
		names = append(names, t.Name)
		r.tools = append(r.tools, t)
	}
	return names
}

// readHooks fills r.hooks with the valid hook points, in snake_case, without duplicates.
func (r *review) readHooks(names []string) {
	for i, name := range names {
		e, ok := manifest.ParseHookEvent(name)
		switch {
		case i >= limits.hooks:
			r.warn("hook_invalid", "", "it offers %d hooks; those after the first %d are dropped", len(names),
				limits.hooks)
			return
		case !ok || e == manifest.ExtensionLoad:
			r.warn("hook_invalid", "the extension's author must fix it",
				"hook %q is dropped: there is no such point for extensions", display.Escape(name))
		case !slices.Contains(r.hooks, string(e)):
			r.hooks = append(r.hooks, string(e))
		}
	}
}

func (r *review) undeclared(what string, declared []string, name string) bool {
	if slices.Contains(declared, name) {
		return false
	}
	r.warn("capability_undeclared",
		fmt.Sprintf("if it is welcome, add it there; without the list of %ss every %s is admitted", what, what),
		"%s %q is dropped: %ss of [capabilities] in the manifest does not list it", what, name, what)
	return true
}

func (r *review) missing(what string, declared, offered []string) {
	for _, name := range declared {
		if !slices.Contains(offered, name) {
			r.warn("capability_missing", "", "the manifest declares %s %q, but the extension does not offer it", what,
				name)
		}
	}
}

func (r *review) warn(code, hint, format string, args ...any) {
	r.diagnostics = append(r.diagnostics, protocol.Diagnostic{
		Level:     protocol.LevelWarn,
		Code:      code,
		Extension: r.extension,
		Message:   fmt.Sprintf(format, args...),
		Hint:      hint,
	})
}

// retold returns descriptors with the texts that a package states in place of the server's. It leaves list as it is.
func retold(list []json.RawMessage, texts map[string]manifest.ToolText) []json.RawMessage {
	if len(texts) == 0 {
		return list
	}
	list = slices.Clone(list)
	for i, raw := range list {
		t, err := parseTool(raw)
		text, stated := texts[t.Name]
		if err != nil || !stated {
			continue
		}
		if text.Title != "" {
			raw = rawjson.Set(raw, "title", rawjson.Quote(text.Title))
		}
		if text.Description != "" {
			raw = rawjson.Set(raw, "description", rawjson.Quote(text.Description))
		}
		if len(text.Annotations) > 0 {
			all := rawjson.Get(raw, "annotations")
			if !rawjson.IsObject(all) {
				all = emptyObject
			}
			for _, name := range slices.Sorted(maps.Keys(text.Annotations)) {
				if value, err := manifest.EncodeJSON(text.Annotations[name]); err == nil {
					all = rawjson.Set(all, name, value)
				}
			}
			raw = rawjson.Set(raw, "annotations", all)
		}
		list[i] = raw
	}
	return list
}

// untold warns of texts about tools that the server does not offer.
func (r *review) untold(texts map[string]manifest.ToolText) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if !slices.ContainsFunc(r.tools, func(t protocol.Tool) bool { return t.Name == name }) {
			r.warn("capability_missing", "",
				"the package has texts for the tool %q, but the server does not offer it", name)
		}
	}
}

// parseTool reads the name, which [capabilities] refers to. The catalog checks the rest of the descriptor.
func parseTool(raw json.RawMessage) (protocol.Tool, error) {
	t := protocol.Tool{Raw: raw}
	switch {
	case len(raw) > limits.descriptor:
		return t, fmt.Errorf("its descriptor is %d bytes long; the limit is %d", len(raw), limits.descriptor)
	case !rawjson.IsObject(raw):
		return t, errors.New("its descriptor is not an object")
	}
	if name := rawjson.Get(raw, "name"); name != nil && json.Unmarshal(name, &t.Name) != nil {
		return t, errors.New("its name is not a string")
	}
	if t.Name == "" {
		return t, errors.New("it has no name")
	}
	return t, nil
}

// Declared returns the tools in the manifest, which are all tools of an extension without handshake (exec and lite).
func Declared(m *manifest.Manifest) []protocol.Tool {
	return reviewDescriptors(m.Plugin.ID, declaredDescriptors(m), m.Capabilities).tools
}

// Undeclared returns the names of the tools in the manifest that [capabilities] does not list.
func Undeclared(m *manifest.Manifest) []string {
	return reviewDescriptors(m.Plugin.ID, declaredDescriptors(m), m.Capabilities).dropped
}

func declaredDescriptors(m *manifest.Manifest) (o descriptors) {
	o.execs = m.Hooks
	for _, s := range m.Tools {
		schema := s.InputSchema
		if schema == nil {
			schema = map[string]any{"type": "object"}
		}
		d := map[string]any{"name": s.Name, "description": s.Description, "inputSchema": schema}
		if s.Title != "" {
			d["title"] = s.Title
		}
		if s.Annotations != nil {
			d["annotations"] = s.Annotations
		}
		raw, err := manifest.EncodeJSON(d)
		if err != nil { // a value without JSON form, such as infinity
			raw = emptyObject // reported as a tool without name
		}
		o.tools = append(o.tools, raw)
	}
	return o
}
