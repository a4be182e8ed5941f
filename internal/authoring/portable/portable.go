// Package portable writes an extension as a package of Agent Plugins, as far as that format carries it.
package portable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
)

// ErrExists is wrapped by Write's error if the new folder is not empty.
var ErrExists = errors.New("it exists already")

// Package is what [Write] has written.
type Package struct {
	Files   []string // below the new folder, sorted
	Servers []string // names, sorted
	Lost    []string // what the format does not carry, a line each
	Own     []string // tables that the package states for this program, and that other clients ignore
}

// packing is an extension being written.
type packing struct {
	name     string
	from, to string
	doc      map[string]any // plugin.toml as it is written
	servers  map[string]server
	existed  bool            // to is an empty folder of the user
	written  map[string]bool // files below to
	out      Package
}

// Write writes the extension in the folder from, which has a plugin.toml, as a plugin of that name into the folder to,
// which must be missing or empty. Nothing is started. It removes what it has written if it fails.
func Write(ctx context.Context, from, to, name string) (*Package, error) {
	if err := agentplugin.ValidateName(name); err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(from) // a link to the folder has no files
	if err != nil {
		return nil, err
	}
	p := &packing{
		name:    name,
		from:    real,
		to:      filepath.Clean(to),
		servers: map[string]server{},
		written: map[string]bool{},
	}
	found, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	if entries, err := os.ReadDir(to); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("%s: %w", to, ErrExists)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	} else {
		p.existed = err == nil
	}
	for i := range found {
		p.server(&found[i])
	}
	p.lose()
	if len(p.servers) == 0 && !hasSkills(from) {
		return nil, fmt.Errorf("nothing of %s can be carried over:\n  %s", from, strings.Join(p.out.Lost, "\n  "))
	}
	if err := p.write(); err != nil {
		return nil, errors.Join(err, p.undo())
	}
	p.out.Servers = slices.Sorted(maps.Keys(p.servers))
	p.out.Files = slices.Sorted(maps.Keys(p.written))
	return &p.out, nil
}

func hasSkills(dir string) bool {
	found, err := filepath.Glob(filepath.Join(dir, "skills", "*", "SKILL.md"))
	return err == nil && len(found) > 0
}

// read finds the extension and the servers in its folder.
func (p *packing) read(ctx context.Context) ([]discovery.Candidate, error) {
	path := filepath.Join(p.from, manifest.FileName)
	m, diags := manifest.ReadFile(path, manifest.ReadOptions{})
	if m == nil {
		return nil, first(diags, path)
	}
	found, err := discovery.Discover(ctx, discovery.Options{SearchPaths: []string{p.from}})
	if err != nil {
		return nil, err
	}
	if len(found.Candidates) == 0 {
		return nil, first(found.Diagnostics, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := toml.Unmarshal(text, &p.doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return found.Candidates, nil
}

func first(diags []protocol.Diagnostic, path string) error {
	for _, d := range diags {
		if d.Level == protocol.LevelError {
			return errors.New(d.String())
		}
	}
	return fmt.Errorf("%s is no extension", path)
}

func (p *packing) lost(format string, args ...any) {
	p.out.Lost = append(p.out.Lost, fmt.Sprintf(format, args...))
}

// carried are the keys of plugin.toml that have a place in the package, apart from those of transport and mcp_servers.
var carried = []string{"plugin.id", "plugin.version", "plugin.description", "meta.author", "meta.license",
	"meta.homepage"}

// tables are those that the package states in this program's namespace.
var tables = []string{"requires", "context", "runtime", "sandbox", "hooks"}

// lose names the keys of plugin.toml that have no place in the package.
func (p *packing) lose() {
	for _, key := range slices.Sorted(maps.Keys(p.doc)) {
		switch {
		case key == "transport" || key == "mcp_servers": // by server
		case slices.Contains(tables, key):
			p.out.Own = append(p.out.Own, key)
		case key == "plugin" || key == "meta":
			of, _ := p.doc[key].(map[string]any)
			for _, inner := range slices.Sorted(maps.Keys(of)) {
				if !slices.Contains(carried, key+"."+inner) {
					p.lost("%s.%s: the format has no place for it", key, inner)
				}
			}
		default:
			p.lost("%s: the format has no place for it", key)
		}
	}
}

// write writes the new folder.
func (p *packing) write() error {
	about, err := p.pluginJSON()
	if err != nil {
		return err
	}
	if err := p.add(agentplugin.FileName, about, 0o644); err != nil {
		return err
	}
	if err := p.copyAll(); err != nil {
		return err
	}
	for {
		if err := p.serversJSON(); err != nil {
			return err
		}
		again, err := p.check()
		if err != nil || !again {
			return err
		}
	}
}

// check reads the package as a client does. It drops invalid servers, and reports whether there were any.
func (p *packing) check() (dropped bool, err error) {
	read := agentplugin.Read(p.to, agentplugin.Options{})
	if read.Identity.Rejected {
		return false, first(read.Diagnostics, filepath.Join(p.to, agentplugin.FileName))
	}
	for _, s := range read.Servers {
		if !s.Valid {
			p.lost("server %s: %s", s.Name, s.Reason)
			delete(p.servers, s.Name)
			dropped = true
		}
	}
	if dropped && len(p.servers) == 0 && !hasSkills(p.from) {
		return false, fmt.Errorf("nothing of %s can be carried over:\n  %s", p.from, strings.Join(p.out.Lost, "\n  "))
	}
	return dropped, nil
}

// pluginJSON returns the text of plugin.json.
func (p *packing) pluginJSON() ([]byte, error) {
	text := func(table, key string) string {
		of, _ := p.doc[table].(map[string]any)
		value, _ := of[key].(string)
		return value
	}
	var about struct {
		Schema      string            `json:"$schema"`
		Name        string            `json:"name"`
		Version     string            `json:"version,omitempty"`
		Description string            `json:"description,omitempty"`
		Author      map[string]string `json:"author,omitempty"`
		Homepage    string            `json:"homepage,omitempty"`
		License     string            `json:"license,omitempty"`
		Extensions  map[string]any    `json:"extensions,omitempty"`
	}
	about.Schema, about.Name = agentplugin.PluginSchema, p.name
	about.Version, about.Description = text("plugin", "version"), text("plugin", "description")
	about.Homepage, about.License = text("meta", "homepage"), text("meta", "license")
	if author := text("meta", "author"); author != "" {
		about.Author = map[string]string{"name": author}
	}
	own := map[string]any{}
	for _, key := range tables {
		if value, ok := p.doc[key]; ok {
			own[key] = value
		}
	}
	if len(own) > 0 {
		raw, err := manifest.EncodeJSON(own)
		if err != nil {
			return nil, err
		}
		about.Extensions = map[string]any{agentplugin.Namespace: raw}
	}
	return indented(about)
}

// serversJSON writes mcp.json, or removes it where no server is left.
func (p *packing) serversJSON() error {
	if len(p.servers) == 0 {
		if !p.written[agentplugin.ServersName] {
			return nil
		}
		delete(p.written, agentplugin.ServersName)
		return os.Remove(filepath.Join(p.to, agentplugin.ServersName))
	}
	text, err := indented(map[string]any{"$schema": agentplugin.ServersSchema, "mcpServers": p.servers})
	if err != nil {
		return err
	}
	return p.add(agentplugin.ServersName, text, 0o644)
}

func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}
