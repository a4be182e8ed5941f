// Package vendorplugin reads plugins in the formats that single programs had before Agent Plugins: those of Claude
// Code, Codex, Gemini CLI and Cursor. It translates what means something here, servers, hooks and skills, into a
// plugin.toml beside the files of the plugin, and names what does not.
package vendorplugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/supply/marketplace"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
)

// Plugin is what exthost runs of a plugin.
type Plugin struct {
	Format   Format
	Manifest string // path of the manifest in the plugin
	Name     string // as the manifest states it

	ID          string
	Version     string // as the manifest states it; "" if it does not
	Description string
	Author      string
	License     string
	Homepage    string
	Servers     []Server // sorted by id
	Hooks       []manifest.HookSpec
	Skills      []string // folders of skills/ with a SKILL.md, valid or not, sorted
	Notes       []Note

	Hints                     map[string]string // what the plugin says of variables that have to be set
	StartTimeout, CallTimeout time.Duration     // the longest that a server states; 0: none does
}

// Server is an MCP server of a plugin.
type Server struct {
	ID string // within the plugin
	manifest.Server
	Asks []string // variables that have to be set
}

// Note says what of a plugin is left out, or is different here.
type Note struct {
	Part    string // where, such as commands/ or mcpServers.github
	Dropped bool   // the part is left out
	Message string
}

// Bounds of a plugin.
const (
	maxFile  = 256 << 10 // of a manifest or a file that it names, in bytes
	maxFiles = 16        // that a manifest names of one kind
	maxNotes = 200
)

// reader is the state of one call of Read.
type reader struct {
	listed   *marketplace.Plugin // nil: it comes from no marketplace
	arranged bool                // see read
	root     *os.Root
	fields   map[string]json.RawMessage
	plugin   *Plugin
}

// find returns the format of the plugin in a folder; "" if none of the formats has a manifest there.
func find(dir string) Format {
	for _, f := range formats {
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(f.manifest)))
		if err == nil && info.Mode().IsRegular() {
			return f.name
		}
	}
	return ""
}

// Root returns the folder of the plugin that path names: a folder with a manifest, or the manifest itself.
func Root(path string) (dir string, ok bool) {
	if find(path) != "" {
		return path, true
	}
	for _, f := range formats {
		name := filepath.FromSlash(f.manifest)
		if path == name {
			return ".", true
		}
		if dir, ok := strings.CutSuffix(path, string(filepath.Separator)+name); ok {
			return dir, true
		}
	}
	return "", false
}

// Read reads the plugin in a folder, in the first of the formats that it has a manifest of. listed is its entry in a
// marketplace, nil for none: it states what the manifest does not, and without a manifest all, in the format of Claude
// Code. The error says why nothing of the plugin can be used.
func Read(dir string, listed *marketplace.Plugin) (*Plugin, error) { return read(dir, listed, false) }

// read is Read. arranged means that the skills that the plugin names are below skills/ by now.
func read(dir string, listed *marketplace.Plugin, arranged bool) (*Plugin, error) {
	name := find(dir)
	if name == "" && listed != nil {
		name = Claude
	}
	if name == "" {
		return nil, errors.New("it has no manifest of Claude Code, Codex, Gemini CLI or Cursor")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() // read only
	f := formatOf(name)
	r := &reader{
		listed:   listed,
		arranged: arranged,
		root:     root,
		plugin:   &Plugin{Format: name, Manifest: f.manifest, Hints: map[string]string{}},
	}
	if err := r.manifest(f); err != nil {
		return nil, err
	}
	r.skills(f)
	if err := r.servers(f); err != nil {
		return nil, err
	}
	r.hooks(f)
	r.leftOut(f)
	p := r.plugin
	if len(p.Servers)+len(p.Hooks)+len(p.Skills) == 0 {
		return p, fmt.Errorf("nothing of the plugin %s means anything here: it has no server, no hook and no skill "+
			"that can be used", display.Cut(display.Visible(p.Name), 100))
	}
	return p, nil
}

// readFields reads the fields of the manifest, and of the marketplace's entry.
func (r *reader) readFields(f *format) error {
	data, err := r.file(f.manifest)
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && r.listed != nil) {
		return err
	}
	r.fields = map[string]json.RawMessage{}
	if data != nil && !r.alone() {
		if err := decode(f.manifest, data, &r.fields); err != nil {
			return err
		}
	}
	if r.listed != nil {
		var entry map[string]json.RawMessage
		if err := decode("the marketplace's entry", r.listed.Entry, &entry); err != nil {
			return err
		}
		for key, value := range entry {
			if _, stated := r.fields[key]; !stated && key != "source" && key != "strict" {
				r.fields[key] = value
			}
		}
	}
	return nil
}

// manifest reads what the manifest and the entry say of the plugin itself.
func (r *reader) manifest(f *format) error {
	if err := r.readFields(f); err != nil {
		return err
	}
	p := r.plugin
	p.Name = r.text("name")
	if p.Name == "" {
		return fmt.Errorf("%s states no name", f.manifest)
	}
	p.Version, p.Description, p.License = r.text("version"), r.text("description"), r.text("license")
	p.Homepage, p.Author = r.text("homepage"), r.text("author")
	var author struct{ Name string }
	if json.Unmarshal(r.fields["author"], &author) == nil {
		p.Author = author.Name
	}
	p.ID = idOf(p.Name)
	return nil
}

// alone reports whether the marketplace's entry states all of the plugin.
func (r *reader) alone() bool { return r.listed != nil && r.listed.Alone }

// idOf makes an id of a name.
func idOf(name string) string {
	id := text.Slug(name, "plugin")
	id = id[:min(len(id), manifest.MaxIDLength-len("-plugin"))]
	if slices.Contains(manifest.ReservedIDs(), id) {
		id += "-plugin"
	}
	return id
}

// text returns the field of the manifest if it is a string, else "".
func (r *reader) text(key string) string {
	text, _ := rawjson.Text(r.fields[key])
	return text
}

// decode reads an object of JSON.
func decode(name string, data []byte, into any) error {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := rawjson.Check(data); err != nil {
		return fmt.Errorf("%s is not JSON: %w", name, err)
	}
	if !rawjson.IsObject(bytes.TrimSpace(data)) {
		return fmt.Errorf("%s is no JSON object", name)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// file returns the content of a file of the plugin.
func (r *reader) file(name string) ([]byte, error) {
	data, _, err := file.ReadRegularIn(r.root, filepath.FromSlash(name), maxFile+1)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s has more than %d KiB", name, maxFile>>10)
	}
	return data, nil
}

// local returns a path that a manifest states, relative to the plugin. ok is false if it leads out of it.
func local(stated string) (name string, ok bool) {
	name = path.Clean(strings.TrimPrefix(stated, "./"))
	return name, !strings.ContainsAny(stated, "\\\x00") && filepath.IsLocal(filepath.FromSlash(name))
}

// exists reports whether the plugin has a file or folder of that name.
func (r *reader) exists(name string) bool {
	_, err := r.root.Stat(filepath.FromSlash(name))
	return err == nil
}

func (r *reader) note(part string, dropped bool, format string, args ...any) {
	if p := r.plugin; len(p.Notes) < maxNotes {
		p.Notes = append(p.Notes, Note{
			Part:    display.Cut(display.Visible(part), 100),
			Dropped: dropped,
			Message: display.Cut(display.Visible(fmt.Sprintf(format, args...)), 500),
		})
	}
}

// listing is a field of a manifest that names files, states their content, or both in a list.
type listing struct {
	where string // for notes
	path  string // of a file; "" if it was stated
	data  json.RawMessage
}

// listings returns what a field states: the content of the files that it names, and objects. Notes name what cannot be
// used.
func (r *reader) listings(field string) (list []listing) {
	value, stated := r.fields[field]
	if !stated {
		return nil
	}
	items := []json.RawMessage{value}
	if bytes.HasPrefix(bytes.TrimSpace(value), []byte("[")) {
		items = nil
		if err := json.Unmarshal(value, &items); err != nil {
			r.note(field, true, "is no list: %v", err)
			return nil
		}
	}
	if len(items) > maxFiles {
		r.note(field, true, "has more than %d members; the first are used", maxFiles)
		items = items[:maxFiles]
	}
	for i, item := range items {
		where := field
		if len(items) > 1 {
			where = fmt.Sprintf("%s[%d]", field, i)
		}
		if rawjson.IsObject(item) {
			list = append(list, listing{where: where, data: item})
			continue
		}
		stated, ok := rawjson.Text(item)
		if !ok {
			r.note(where, true, "is neither a path nor an object")
			continue
		}
		name, ok := local(stated)
		if !ok {
			r.note(where, true, "the path %q leads out of the plugin", stated)
			continue
		}
		if ext := path.Ext(name); ext == ".mcpb" || ext == ".dxt" {
			r.note(where, true, "%s is an MCP bundle: exthost add adds it from its file", name)
			continue
		}
		if one, ok := r.listing(name); ok {
			list = append(list, one)
		}
	}
	return list
}

// listing reads a file. ok is false, with a note, if it cannot be used.
func (r *reader) listing(name string) (l listing, ok bool) {
	data, err := r.file(name)
	var object map[string]json.RawMessage
	if err == nil {
		err = decode(name, data, &object)
	}
	if err != nil {
		r.note(name, true, "%v", err)
		return l, false
	}
	return listing{where: name, path: name, data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))}, true
}
