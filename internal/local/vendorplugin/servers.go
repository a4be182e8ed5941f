package vendorplugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/local/clientconfig"
	"github.com/exthost/exthost/internal/supply/launcher"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
)

// servers reads the servers that the manifest states, and those of the file that has them by its name.
func (r *reader) servers(f *format) error {
	found := r.listings("mcpServers")
	if _, stated := r.fields["mcpServers"]; f.servers != "" && (f.both || !stated) && r.exists(f.servers) {
		if one, ok := r.listing(f.servers); ok {
			found = append(found, one)
		}
	}
	all := map[string]any{}
	for i, l := range found {
		if slices.ContainsFunc(found[:i], func(other listing) bool { return l.path != "" && other.path == l.path }) {
			continue // the manifest names the file that is read anyway
		}
		for name, raw := range rawjson.Members(membersOf(l.data)) {
			var server any
			if !rawjson.IsObject(raw) {
				continue // such as $schema
			}
			d := json.NewDecoder(bytes.NewReader(raw))
			d.UseNumber()
			if err := d.Decode(&server); err != nil {
				return err
			}
			if _, twice := all[name]; twice {
				r.note(l.where+"."+name, true, "another server of the plugin has that name")
				continue
			}
			all[name] = r.substitute(f, server)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return r.convert(f, all)
}

// membersOf returns the object with the servers of a file, which has them below a key or at its top.
func membersOf(data json.RawMessage) json.RawMessage {
	for _, key := range []string{"mcpServers", "mcp_servers"} {
		if inner := rawjson.Get(data, key); rawjson.IsObject(inner) {
			return inner
		}
	}
	return data
}

// substitute replaces the placeholders of the program in all texts of a value.
func (r *reader) substitute(f *format, value any) any {
	switch v := value.(type) {
	case string:
		return r.replace(f, v, rootVariable, stateVariable+"/../"+r.plugin.ID)
	case []any:
		for i := range v {
			v[i] = r.substitute(f, v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = r.substitute(f, v[key])
		}
		if cwd, ok := v["cwd"].(string); ok && f.name == Codex { // relative to the plugin, not to the project
			if name, ok := local(cwd); ok {
				v["cwd"] = rootVariable + "/" + name
			}
		}
	}
	return value
}

// replace replaces the placeholders in one text.
func (r *reader) replace(f *format, text, root, data string) string {
	if f.name == Codex { // which replaces none in the settings of servers
		return strings.ReplaceAll(text, "${", "$${")
	}
	for _, word := range f.root {
		text = strings.ReplaceAll(text, word, root)
	}
	for _, word := range f.data {
		text = strings.ReplaceAll(text, word, data)
	}
	if f.name == Claude {
		text = r.options(text)
	}
	return text
}

var userConfig = regexp.MustCompile(`\$\{user_config\.([A-Za-z0-9_-]+)\}`)

var notInVariable = regexp.MustCompile(`[^A-Z0-9_]`)

// options replaces what Claude Code asks its user for by the variable that it gives processes for it, with the default
// that the plugin states.
func (r *reader) options(text string) string {
	return userConfig.ReplaceAllStringFunc(text, func(ref string) string {
		key := userConfig.FindStringSubmatch(ref)[1]
		name := "CLAUDE_PLUGIN_OPTION_" + notInVariable.ReplaceAllString(strings.ToUpper(key), "_")
		of := rawjson.Get(rawjson.Get(r.fields["userConfig"], key), "default")
		fixed, isText := rawjson.Text(of)
		if !isText {
			fixed = strings.TrimSpace(string(of))
		}
		if of == nil || fixed == "null" || strings.ContainsAny(fixed, "${}[\x00") {
			r.hint(name, rawjson.Get(r.fields["userConfig"], key), "description", "title")
			return "${" + name + "}"
		}
		return "${" + name + ":-" + fixed + "}"
	})
}

// hint keeps what the plugin says of a variable: the first text of an object under one of the keys.
func (r *reader) hint(name string, of json.RawMessage, keys ...string) {
	for _, key := range keys {
		if said, ok := rawjson.Text(rawjson.Get(of, key)); ok && said != "" {
			r.plugin.Hints[name] = display.Cut(strings.Join(strings.Fields(display.Visible(said)), " "), maxMeta)
			return
		}
	}
}

// settings returns the variables of Gemini CLI's settings, which its user is asked for and all processes of the
// extension get.
func (r *reader) settings() (names []string) {
	var list []json.RawMessage
	_ = json.Unmarshal(r.fields["settings"], &list) // anything else states none
	for _, one := range list[:min(len(list), maxSettings)] {
		if name, ok := rawjson.Text(rawjson.Get(one, "envVar")); ok && variable.MatchString(name) {
			names = append(names, name)
			r.hint(name, one, "description", "name")
		}
	}
	return names
}

// maxSettings bounds the settings of a plugin.
const maxSettings = 64

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// convert turns the servers into those of a plugin.toml.
func (r *reader) convert(f *format, all map[string]any) error {
	key := "mcpServers"
	if f.name == Codex {
		key = "mcp_servers"
	}
	data, err := json.Marshal(map[string]any{key: all})
	if err != nil {
		return err
	}
	result, err := clientconfig.Read("mcp.json", data,
		clientconfig.Options{From: f.client, Plugin: r.plugin.ID, Secrets: true, Lock: true})
	if err != nil {
		return fmt.Errorf("its servers: %w", err)
	}
	for _, n := range result.Notes {
		part := "mcpServers"
		if n.Server != "" {
			part += "." + n.Server
		}
		r.note(part, n.Dropped, "%s", n.Message)
	}
	for i := range result.Servers {
		if s, ok := r.server(f, &result.Servers[i]); ok {
			r.plugin.Servers = append(r.plugin.Servers, s)
		}
	}
	return nil
}

// server converts one server. ok is false, with a note, if it cannot be used.
func (r *reader) server(f *format, c *clientconfig.Server) (s Server, ok bool) {
	part := "mcpServers." + c.Name
	if c.Disabled {
		r.note(part, true, "is switched off in the plugin")
		return s, false
	}
	if c.OAuth != nil {
		r.note(part, false, "the client that it signs in with is left out; exthost secret login registers one, where "+
			"the server allows that")
	}
	s = Server{ID: c.ID, Asks: c.RequiredEnv(), Server: manifest.Server{
		Type:    c.Kind,
		Command: c.Command,
		Args:    c.Args,
		Cwd:     c.Cwd,
		URL:     c.URL,
		Headers: c.Headers,
	}}
	if f.name == Gemini && s.Type == manifest.KindStdio {
		s.Asks = append(s.Asks, r.settings()...)
		slices.Sort(s.Asks)
		s.Asks = slices.Compact(s.Asks)
	}
	s.Asks = slices.DeleteFunc(s.Asks, func(name string) bool { return strings.HasPrefix(name, "EXTHOST_") })
	if s.Type == manifest.KindStdio {
		s.Env = map[string]string{}
		maps.Copy(s.Env, c.Env)
		maps.Copy(s.Env, f.exported)
		if f.data != nil && f.exported != nil {
			s.Env[strings.Trim(f.data[0], "${}")] = stateVariable + "/../" + r.plugin.ID
		}
		maps.DeleteFunc(s.Env, func(name, value string) bool { return value == "${"+name+"}" })
		if wrong := s.inPlace(); wrong != "" {
			r.note(part, true, "%s", wrong)
			return s, false
		}
		if s.Cwd == "" && r.holds(append([]string{s.Command}, s.Args...)) {
			s.Cwd = stateVariable
			r.note(part, false, "it starts in its state directory: in the plugin, which is the source of its package, "+
				"npx would run what is there and install nothing")
		}
	}
	p := r.plugin
	p.StartTimeout, p.CallTimeout = max(p.StartTimeout, c.StartTimeout), max(p.CallTimeout, c.CallTimeout)
	done, _ := s.Server.Complete()
	if problems := done.Validate(); len(problems) > 0 {
		r.note(part, true, "%s", problems[0].Message)
		return s, false
	}
	s.Server = done
	return s, true
}

// holds reports whether a command line installs and runs the npm package that the plugin itself is the source of.
func (r *reader) holds(argv []string) bool {
	run, _ := launcher.Parse(argv)
	spec, npm := strings.CutPrefix(run.Source, "npm:")
	if !npm {
		return false
	}
	data, err := r.file("package.json")
	if err != nil {
		return false
	}
	name, ok := rawjson.Text(rawjson.Get(data, "name"))
	return ok && name != "" && (spec == name || strings.HasPrefix(spec, name+"@"))
}

// inPlace makes the command and the working directory relative to the plugin, as a manifest states them. It returns why
// the server cannot be used, or "".
func (s *Server) inPlace() string {
	if rest, ok := strings.CutPrefix(s.Command, rootVariable); ok {
		name, ok := local("." + rest)
		if !ok || name == "." {
			return "its command leads out of the plugin"
		}
		s.Command = "./" + name
	}
	if strings.Contains(s.Command, "${") && !strings.HasPrefix(s.Command, "${HOME}/") {
		return "a variable decides which program it runs: " + s.Command
	}
	if rest, ok := strings.CutPrefix(s.Cwd, rootVariable); ok {
		name, ok := local("." + rest)
		if !ok {
			return "its working directory leads out of the plugin"
		}
		if s.Cwd = name; name == "." {
			s.Cwd = ""
		}
	}
	return ""
}
