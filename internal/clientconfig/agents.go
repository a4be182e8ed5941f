package clientconfig

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/exthost/exthost/manifest"
)

// isGoose reports whether the extensions of a YAML file are those of Goose: each has a type. Nexo's has none.
func isGoose(extensions map[string]any) bool {
	for _, v := range extensions {
		if kind, _ := table(v)["type"].(string); kind != "" {
			return true
		}
	}
	return false
}

// goose returns the servers of Goose's config.yaml in the form that [reader.server] reads.
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

// continued returns the servers of a configuration of Continue, which are a list.
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

// opencode returns the servers of an opencode.json.
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

// isOpenCode reports whether the servers under mcp are those of opencode: each has a command that is a list,
// or a type of its own.
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

// rename moves a member to another key.
func rename(raw map[string]any, from, to string) {
	if v, ok := raw[from]; ok {
		delete(raw, from)
		raw[to] = v
	}
}
