package clientconfig

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/foreign"
	"github.com/exthost/exthost/manifest"
)

func isYAML(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".yaml" || ext == ".yml"
}

func programOf(root map[string]any) Client {
	_, catalog := root["servers"].([]any)
	switch plugins, _ := root["plugins"].([]any); {
	case catalog:
		return MCPV
	case isGoose(table(root["extensions"])):
		return Goose
	case root["extensions"] != nil:
		return Nexo
	case isList(root["mcpServers"]):
		return Continue
	case root["mcpServers"] != nil || root["servers"] != nil:
		return ClaudeCode
	case plugins != nil && !slices.ContainsFunc(plugins, func(p any) bool { return table(p)["cmd"] != nil }):
		return ContextForge
	case root["plugins"] != nil:
		return MCPV
	}
	return Destinations
}

func isList(v any) bool {
	_, is := v.([]any)
	return is
}

// servers returns the servers of a file by name, normalized for [reader.server], and adds everything else to the
// result.
func (r *reader) servers(root map[string]any) (map[string]map[string]any, error) {
	switch r.result.Client {
	case MCPV:
		return r.catalog(root), nil
	case ContextForge:
		r.unused(root, "plugins")
		r.policies(root["plugins"])
		return nil, nil
	case Nexo:
		return nil, r.settings(root)
	case Destinations:
		return r.destinations(root)
	case Goose:
		return r.goose(root), nil
	case OpenCode:
		return r.opencode(root), nil
	case Continue:
		if list, ok := root["mcpServers"].([]any); ok {
			return r.continued(list), nil
		}
	}
	return r.list(root)
}

func (r *reader) destinations(root map[string]any) (map[string]map[string]any, error) {
	list, wrapped := root["destinations"]
	if !wrapped {
		list = root
	}
	all := make(map[string]map[string]any)
	for name, v := range inOrder(table(list)) {
		switch v := v.(type) {
		case string:
			all[name] = map[string]any{"type": manifest.KindSSE, "url": v}
			continue
		case map[string]any:
			all[name] = v
		default:
			return nil, fmt.Errorf("%s is neither a URL nor a destination", name)
		}
		server := all[name]
		if server["type"] == nil && server["command"] == nil {
			server["type"] = manifest.KindSSE
		}
		if line, ok := server["command"].(string); ok {
			words, err := text.CommandWords(line)
			if err != nil || len(words) == 0 {
				r.drop(name, "its command cannot be split into words: %v", err)
				delete(all, name)
				continue
			}
			server["command"] = words
		}
		command(server, server["command"])
	}
	if len(all) == 0 && len(r.result.Notes) == 0 {
		return nil, fmt.Errorf("there are no destinations in the file")
	}
	return all, nil
}

// command splits a list of words into a server's command and args.
func command(server map[string]any, list any) {
	var words []string
	switch list := list.(type) {
	case []string:
		words = list
	case []any:
		for _, w := range list {
			word, _ := scalar(w)
			words = append(words, word)
		}
	}
	delete(server, "command")
	if len(words) > 0 {
		args := make([]any, len(words)-1)
		for i, w := range words[1:] {
			args[i] = w
		}
		server["command"], server["args"] = words[0], args
	}
}

// counterparts says what takes the place of top-level keys of an mcpv catalog that are not imported.
var counterparts = map[string]string{
	"routeTimeoutSeconds":     "extensions.defaults.call_timeout bounds calls",
	"pingIntervalSeconds":     "extensions.defaults.health_interval sends pings",
	"bootstrapMode":           "extensions.defaults.activation says when extensions start",
	"defaultActivationMode":   "extensions.defaults.activation says when extensions start",
	"bootstrapTimeoutSeconds": "extensions.defaults.start_timeout bounds the start",
	"rpc":                     "clients connect over MCP, at server.listen",
	"observability":           "metrics are at /metrics of server.listen",
	"reloadMode":              "extensions.watch applies changes",
	"toolNamespaceStrategy":   "tools are called ext_ID_NAME, and by their own names on /ID/mcp",
}

// unused notes the top-level keys that are not imported.
func (r *reader) unused(root map[string]any, read ...string) {
	for key := range inOrder(root) {
		if !slices.Contains(read, key) {
			instead, _ := foreign.NoEffect(key)
			r.note("", "%s", leftOut(key, cmp.Or(instead, counterparts[key])))
		}
	}
}

// catalog returns the servers of an mcpv catalog.
func (r *reader) catalog(root map[string]any) map[string]map[string]any {
	r.unused(root, "servers", "plugins")
	all := make(map[string]map[string]any)
	servers, _ := root["servers"].([]any)
	for i, v := range servers {
		raw := maps.Clone(table(v))
		name, _ := raw["name"].(string)
		if name == "" {
			r.drop(fmt.Sprintf("servers[%d]", i), "it has no name")
			continue
		}
		delete(raw, "name")
		command(raw, raw["cmd"])
		delete(raw, "cmd")
		if web := table(raw["http"]); web != nil {
			raw["url"], raw["headers"], raw["type"] = web["endpoint"], web["headers"], manifest.KindHTTP
			for key := range inOrder(web) {
				if key != "endpoint" && key != "headers" {
					r.note(name, "http.%s has no counterpart here, and is left out", key)
				}
			}
			delete(raw, "transport")
		}
		delete(raw, "http")
		all[name] = raw
	}
	r.policies(root["plugins"])
	return all
}

// runtime reads the keys of a catalog's server that correspond to keys of [runtime].
func (f *fields) runtime() map[string]string {
	set := make(map[string]string)
	for key, name := range map[string]string{"idleSeconds": "idle_timeout", "drainTimeoutSeconds": "drain_timeout"} {
		if d := f.duration(key, time.Second); d > 0 {
			set[name] = text.Literal(d.String())
		}
	}
	if n, ok := f.set["maxConcurrent"].(int); ok && n > 0 {
		set["max_in_flight"] = fmt.Sprint(n)
		delete(f.set, "maxConcurrent")
	}
	switch f.text("activationMode") {
	case "always-on":
		set["activation"] = text.Literal(manifest.ActivationEager)
	case "on-demand":
		set["activation"] = text.Literal(manifest.ActivationLazy)
	}
	if f.text("strategy") == "stateful" {
		set["instances"] = text.Literal(string(manifest.InstancesPerSession))
	}
	if len(set) == 0 {
		return nil
	}
	return set
}

// policies adds the plugins that can run here to the configuration.
func (r *reader) policies(list any) {
	plugins, is := list.([]any)
	if list != nil && !is {
		r.drop("plugins", "it is no list")
	}
	var kept []any
	for i, v := range plugins {
		p := table(v)
		name, _ := p["name"].(string)
		if name = cmp.Or(name, fmt.Sprintf("plugins[%d]", i)); p == nil {
			r.drop(name, "it is no table")
			continue
		}
		kind, _ := p["kind"].(string)
		if instead, is := foreign.PythonClass(kind); is {
			r.drop(name, "%s is a Python class that runs only inside ContextForge; %s", kind, instead)
			continue
		}
		if !r.Secrets {
			r.masker.maskTree(&Server{Name: name}, "", p)
		}
		kept = append(kept, p)
	}
	if len(kept) > 0 {
		r.config("plugins", map[string]any{"plugins": kept})
	}
}

// settings adds the extensions section of a nexo configuration.
func (r *reader) settings(root map[string]any) error {
	r.unused(root, "extensions")
	e := table(root["extensions"])
	if e == nil {
		return fmt.Errorf("extensions is no table")
	}
	for _, text := range removeNoEffect(e, "extensions") {
		r.note("", "%s", text)
	}
	for id, entry := range inOrder(table(e["entries"])) {
		if !r.Secrets {
			r.masker.maskTree(&Server{Name: id}, "", entry)
		}
	}
	r.config("extensions", map[string]any{"extensions": e})
	return nil
}

// removeNoEffect removes keys without effect below path, and returns a note for each.
func removeNoEffect(in map[string]any, path ...string) (notes []string) {
	for key, v := range inOrder(in) {
		at := append(slices.Clip(path), key)
		if instead, known := foreign.NoEffect(at...); known {
			delete(in, key)
			notes = append(notes, leftOut(strings.Join(at, "."), instead))
		} else if len(at) < foreign.Depth {
			notes = append(notes, removeNoEffect(table(v), at...)...)
		}
	}
	return notes
}

func (r *reader) config(name string, content map[string]any) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	_ = e.Encode(content) // decoded values can be encoded
	r.result.Config = append(r.result.Config, File{name + ".yaml", b.Bytes()})
}

// allowed disables the servers that Gemini's mcp.allowed and mcp.excluded keep out.
func (r *reader) allowed(root map[string]any) {
	if r.result.Client != Gemini {
		return
	}
	lists := &fields{set: maps.Clone(table(root["mcp"]))}
	allowed, excluded := lists.list("allowed"), lists.list("excluded")
	for i := range r.result.Servers {
		s := &r.result.Servers[i]
		out := slices.Contains(excluded, s.Name) || len(allowed) > 0 && !slices.Contains(allowed, s.Name)
		if out && !s.Disabled {
			s.Disabled = true
			r.note(s.Name, "mcp.allowed or mcp.excluded keeps it out there, and it is switched off here")
		}
	}
}

// isGoose reports whether the extensions in a YAML file are Goose's. Goose's extensions have a type, nexo's do not.
func isGoose(extensions map[string]any) bool {
	for _, v := range extensions {
		if kind, _ := table(v)["type"].(string); kind != "" {
			return true
		}
	}
	return false
}

// goose returns the servers in Goose's config.yaml, normalized for [reader.server].
func (r *reader) goose(root map[string]any) map[string]map[string]any {
	all := make(map[string]map[string]any)
	for name, v := range inOrder(table(root["extensions"])) {
		raw := maps.Clone(table(v))
		switch kind, _ := raw["type"].(string); kind {
		case "stdio", "sse", "streamable_http":
		default:
			r.drop(name, "type %s of Goose is a part of Goose itself", kind)
			continue
		}
		for _, key := range []string{"name", "description", "display_name", "bundled"} {
			delete(raw, key)
		}
		rename(raw, "cmd", "command")
		rename(raw, "envs", "env")
		rename(raw, "uri", "url")
		rename(raw, "timeout", "tool_timeout_sec")
		rename(raw, "available_tools", "includeTools")
		if keys, _ := raw["env_keys"].([]any); len(keys) == 0 {
			delete(raw, "env_keys")
		} else {
			rename(raw, "env_keys", "env_vars")
		}
		all[name] = raw
	}
	return all
}

// continued returns the servers in a Continue configuration, where they are a list.
func (r *reader) continued(list []any) map[string]map[string]any {
	all := make(map[string]map[string]any)
	for i, v := range list {
		raw := maps.Clone(table(v))
		name, _ := raw["name"].(string)
		if name == "" || all[name] != nil {
			r.drop(cmp.Or(name, fmt.Sprintf("mcpServers[%d]", i)), "it has no name of its own")
			continue
		}
		delete(raw, "name")
		all[name] = raw
	}
	return all
}

// opencode returns the servers in an opencode.json.
func (r *reader) opencode(root map[string]any) map[string]map[string]any {
	all := make(map[string]map[string]any)
	for name, v := range inOrder(table(root["mcp"])) {
		raw := maps.Clone(table(v))
		switch raw["type"] {
		case "local":
			raw["type"] = manifest.KindStdio
		case "remote":
			raw["type"] = manifest.KindHTTP
		}
		command(raw, raw["command"])
		rename(raw, "environment", "env")
		all[name] = raw
	}
	return all
}

// isOpenCode reports whether the servers under mcp are opencode's: their command is a list, or their type is
// local or remote.
func isOpenCode(servers map[string]any) bool {
	for _, v := range servers {
		server := table(v)
		_, list := server["command"].([]any)
		if list || server["type"] == "local" || server["type"] == "remote" {
			return true
		}
	}
	return false
}

func rename(raw map[string]any, from, to string) {
	if v, ok := raw[from]; ok {
		delete(raw, from)
		raw[to] = v
	}
}
